// Draws the graph of a workflow's tasks from the rows of their table, which says the same in words: each row has its
// task (data-task), the tasks before it (data-after) and, in a run, its state. dagre finds the places of tasks, once; when
// the rows are fetched again the states alone change. Where the rows have no data-after nothing is drawn.
(() => {
  "use strict";
  if (window.consoleGraph) return;
  window.consoleGraph = true;

  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 200, HEIGHT = 46, MIN_SCALE = 0.55;
  const CONDITIONS = ["on_success", "on_failure", "on_finished"];
  const dashed = (name) => `flow-${name.replaceAll("_", "-")}`;

  function read(table) {
    return [...table.querySelectorAll("tr[data-task]")].map((row) => ({
      key: row.dataset.task,
      after: row.dataset.after ? JSON.parse(row.dataset.after) : null,
      state: row.dataset.state,
      icon: row.dataset.icon,
      detail: row.dataset.detail,
      link: row.querySelector("th a"),
    }));
  }

  function place(tasks) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 56, marginx: 6, marginy: 6 });
    for (const task of tasks) graph.setNode(task.key, { width: WIDTH, height: HEIGHT });
    for (const task of tasks) {
      for (const [before, condition] of task.after) graph.setEdge(before, task.key, { condition });
    }
    dagre.layout(graph);
    return graph;
  }

  function element(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  /** From the right side of one task to the left side of another, level there and wherever it passes others. */
  function path(from, to, points) {
    // dagre's first and last are on the outlines; every other one between stands for no column of tasks.
    const passed = points.slice(1, -1).filter((_, at) => at % 2 === 1);
    let at = { x: from.x + WIDTH / 2, y: from.y };
    let drawn = `M${at.x},${at.y}`;
    for (const point of [...passed, { x: to.x - WIDTH / 2, y: to.y }]) {
      const middle = (at.x + point.x) / 2;
      drawn += ` C${middle},${at.y} ${middle},${point.y} ${point.x},${point.y}`;
      at = point;
    }
    return drawn;
  }

  function edges(graph) {
    const { width, height } = graph.graph();
    const svg = element("svg", { width, height });
    const heads = element("defs", {});
    for (const condition of CONDITIONS) {
      const head = element("marker", { id: `head-${condition}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
      head.append(element("path", { d: "M0,0 L8,4 L0,8 z", class: `flow-head ${dashed(condition)}` }));
      heads.append(head);
    }
    svg.append(heads);
    for (const edge of graph.edges()) {
      const { points, condition } = graph.edge(edge);
      const d = path(graph.node(edge.v), graph.node(edge.w), points);
      svg.append(element("path", { d, class: `flow-edge ${dashed(condition)}`, "marker-end": `url(#head-${condition})` }));
    }
    return svg;
  }

  function node(task, { x, y }) {
    const made = document.createElement(task.link ? "a" : "div");
    made.className = "flow-task";
    made.style.cssText = `left: ${x - WIDTH / 2}px; top: ${y - HEIGHT / 2}px; width: ${WIDTH}px; height: ${HEIGHT}px`;
    if (task.link) {
      made.href = task.link.href;
      // Keyboards find the same link in the table.
      made.tabIndex = -1;
      made.addEventListener("click", (event) => {
        event.preventDefault();
        document.getElementById(`task-${task.key}`).click();
      });
    }
    const icon = document.createElement("span");
    icon.className = "material-symbols-outlined";
    icon.ariaHidden = "true";
    made.append(icon, document.createElement("b"), document.createElement("small"));
    return made;
  }

  function tell(made, task) {
    const [icon, name, detail] = made.children;
    icon.textContent = task.icon;
    name.textContent = task.key;
    detail.textContent = task.detail;
    made.title = task.state ? `${task.key}: ${task.state}` : task.key;
    if (task.state) made.dataset.state = task.state;
  }

  class Drawing {
    constructor(box) {
      this.box = box;
      this.nodes = new Map();
      this.structure = "";
    }

    update() {
      const table = document.getElementById(this.box.dataset.graphOf);
      const tasks = table ? read(table) : [];
      const drawn = tasks.length > 1 && tasks.every((task) => task.after);
      this.box.hidden = this.box.nextElementSibling.hidden = !drawn;
      if (!drawn) return;
      const structure = JSON.stringify(tasks.map((task) => [task.key, task.after]));
      if (structure !== this.structure) this.draw(tasks);
      this.structure = structure;
      for (const task of tasks) tell(this.nodes.get(task.key), task);
    }

    draw(tasks) {
      const graph = place(tasks);
      const stage = document.createElement("div");
      stage.className = "flow-stage";
      this.nodes = new Map(tasks.map((task) => [task.key, node(task, graph.node(task.key))]));
      stage.append(edges(graph), ...this.nodes.values());
      this.box.replaceChildren(stage);
      this.size = graph.graph();
      this.fit();
    }

    /** As small as it must be to be seen whole, within reason; then it scrolls. */
    fit() {
      if (!this.size || !this.box.clientWidth) return;
      const scale = Math.max(MIN_SCALE, Math.min(1, (this.box.clientWidth - 8) / this.size.width));
      const stage = this.box.firstElementChild;
      stage.style.cssText = `width: ${this.size.width * scale}px; height: ${this.size.height * scale}px; transform: scale(${scale})`;
    }
  }

  function start() {
    const drawings = [...document.querySelectorAll("[data-graph-of]")].map((box) => new Drawing(box));
    const update = () => drawings.forEach((one) => one.update());
    document.addEventListener("htmx:afterSettle", update);
    window.addEventListener("resize", () => drawings.forEach((one) => one.fit()));
    update();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
