// Draws each canvas with data-chart (jobs/admin/charts/chart.py), in fragments too, and again when the theme changes.
(() => {
  "use strict";
  if (window.consoleCharts) return;
  window.consoleCharts = true;

  // Each tone has 3 : 1 or more against its background, and those that meet in a stack differ in lightness.
  const TONES = {
    light: {
      good: "#059669", warn: "#92400e", bad: "#ef4444", muted: "#475569", note: "#8b5cf6", plain: "#2563eb",
      text: "#4b5563", grid: "#e5e7eb", ground: "#ffffff",
    },
    dark: {
      good: "#2dd4bf", warn: "#c2630f", bad: "#fda4af", muted: "#64748b", note: "#ddd6fe", plain: "#60a5fa",
      text: "#d1d5db", grid: "#374151", ground: "#111827",
    },
  };

  const isDark = () => document.documentElement.classList.contains("dark");

  function short(value) {
    if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
    if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
    return String(Number(Number(value).toPrecision(3)));
  }

  function dataset(series, chart, tones) {
    const colour = tones[series.tone] || tones.plain;
    const line = { borderColor: colour, borderWidth: 2, borderDash: series.dash, pointRadius: 0, pointHitRadius: 8, spanGaps: false };
    // A single point between gaps has no line to be seen by.
    line.pointRadius = (point) => {
      const values = series.values;
      const alone = (n) => values[n] === null || values[n] === undefined;
      return alone(point.dataIndex - 1) && alone(point.dataIndex + 1) ? 3 : 0;
    };
    const bar = { borderColor: tones.ground, borderWidth: { top: 1 }, borderSkipped: false, maxBarThickness: 28 };
    return {
      label: series.label,
      data: series.values,
      backgroundColor: colour,
      ...(chart.kind === "line" ? line : bar),
    };
  }

  function options(chart, tones) {
    const unit = chart.seconds ? " s" : "";
    const figures = {
      stacked: chart.stacked, beginAtZero: true, border: { display: false }, grid: { color: tones.grid },
      ticks: { color: tones.text, precision: chart.seconds ? undefined : 0, maxTicksLimit: 6, callback: (value) => short(value) + unit },
    };
    const labels = {
      stacked: chart.stacked, grid: { display: false },
      ticks: { color: tones.text, maxRotation: 0, autoSkip: !chart.across, maxTicksLimit: 8 },
    };
    const about = (item) => `${item.dataset.label}: ${Number(item.raw).toLocaleString("en")}${unit}`;
    return {
      animation: false, responsive: true, maintainAspectRatio: false,
      indexAxis: chart.across ? "y" : "x",
      interaction: { mode: "index", intersect: false, axis: chart.across ? "y" : "x" },
      plugins: {
        legend: {
          position: "bottom",
          labels: { color: tones.text, boxWidth: chart.kind === "line" ? 36 : 12, boxHeight: chart.kind === "line" ? 0 : 12 },
        },
        tooltip: { callbacks: { label: about } },
      },
      scales: chart.across ? { x: figures, y: labels } : { x: labels, y: figures },
    };
  }

  function draw(canvas) {
    const chart = JSON.parse(canvas.dataset.chart);
    const tones = TONES[isDark() ? "dark" : "light"];
    const before = Chart.getChart(canvas);
    if (before) before.destroy();
    new Chart(canvas, {
      type: chart.kind,
      data: { labels: chart.labels, datasets: chart.series.map((one) => dataset(one, chart, tones)) },
      options: options(chart, tones),
    });
  }

  const drawAll = () => document.querySelectorAll("canvas[data-chart]").forEach(draw);
  const drawNew = () =>
    document.querySelectorAll("canvas[data-chart]").forEach((canvas) => Chart.getChart(canvas) || draw(canvas));

  document.addEventListener("htmx:afterSettle", drawNew);
  new MutationObserver(drawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  drawAll();
})();
