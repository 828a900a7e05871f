// The form of a job: it asks what was typed comes to, keeps the inputs of a payload and its JSON alike, offers the
// browser's own time zone first, and warns of leaving what is not saved. Without it the form is what is sent all the same.
(function () {
  "use strict";

  const named = (name) => document.querySelector(`#job_form [name="${name}"]`);

  /** Set an input as if it had been typed. */
  function fill(input, value) {
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }

  /** Tell those parts of the form that answer to the input of this name. */
  function tell(name) {
    for (const part of document.querySelectorAll("[data-answers]")) {
      if (part.dataset.answers.split(" ").some((start) => name.startsWith(start))) {
        window.htmx.trigger(part, "edited");
      }
    }
  }

  /** The payload, where its JSON is an object that JavaScript keeps as it is; null where it is not. */
  function payload() {
    const text = named("payload").value.trim() || "{}";
    // Numbers that a browser would round, and keys given twice, are left to the text.
    if (/\d{16,}|\d[eE]|\.\d{16,}/.test(text)) return null;
    try {
      const found = JSON.parse(text);
      return found && typeof found === "object" && !Array.isArray(found) ? found : null;
    } catch {
      return null;
    }
  }

  function value(input) {
    const text = input.value;
    if (text === "") return undefined;
    switch (input.dataset.kind) {
      case "integer":
      case "number":
        return Number(text);
      case "boolean":
        return text === "true";
      case "json":
        return JSON.parse(text);
      default:
        return text;
    }
  }

  const shown = (given, kind) => (given === undefined ? "" : kind === "json" ? JSON.stringify(given) : String(given));

  /** From the JSON to its inputs. */
  function spread() {
    const found = payload();
    const note = document.getElementById("payload-exact");
    if (note) note.hidden = found !== null;
    for (const input of document.querySelectorAll("[data-payload]")) {
      input.disabled = found === null;
      if (found !== null && input !== document.activeElement) {
        input.value = shown(found[input.dataset.payload], input.dataset.kind);
      }
    }
  }

  /** From an input to the JSON. */
  function gather(input) {
    const found = payload();
    if (found === null) return;
    let given;
    try {
      given = value(input);
      input.setCustomValidity("");
    } catch {
      input.setCustomValidity("Not JSON yet.");
      return;
    }
    if (given === undefined) delete found[input.dataset.payload];
    else found[input.dataset.payload] = given;
    fill(named("payload"), JSON.stringify(found, null, 2));
  }

  function start() {
    const form = document.getElementById("job_form");
    if (!form || !named("payload")) return;
    document.getElementById("conflict")?.scrollIntoView({ block: "center" });
    let unsaved = Boolean(document.querySelector("[data-unsaved]"));

    form.addEventListener("input", (event) => {
      unsaved = true;
      const { name, dataset } = event.target;
      if (dataset.payload) gather(event.target);
      if (name === "payload") spread();
      if (name) tell(name);
    });
    form.addEventListener("click", (event) => {
      const button = event.target.closest("[data-fill], [data-empty]");
      if (!button) return;
      if (button.dataset.fill) fill(named(button.dataset.fill), button.dataset.value);
      else document.getElementById(button.dataset.empty).replaceChildren();
    });
    form.addEventListener("submit", () => { unsaved = false; });
    window.addEventListener("beforeunload", (event) => {
      if (unsaved) event.preventDefault();
    });
    document.addEventListener("htmx:afterSettle", (event) => {
      if (event.target.id === "payload-fields") spread();
    });
    // The tenant's select tells jQuery alone that it has changed.
    if (window.django && window.django.jQuery && named("tenant")) {
      window.django.jQuery(named("tenant")).on("change", () => { unsaved = true; tell("tenant"); });
    }

    const zones = document.getElementById("schedule_timezone-suggestions");
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const mine = zones && [...zones.options].find((option) => option.value === own);
    if (mine) {
      mine.label = "your browser's";
      zones.prepend(mine);
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
