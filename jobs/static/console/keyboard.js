// The console by keyboard: whatever a pointer can press can be reached and pressed, what opens takes the focus and gives
// it back, and "?" lists the keys. Unfold builds some of its controls from <a> without href, <div> and <span>; they are
// given here what a browser gives a button. No page needs this to be read.
(() => {
    "use strict";

    const FOCUSABLE =
        "a[href], button:not([disabled]), input:not([type=hidden]):not([disabled]), select:not([disabled]), " +
        "textarea:not([disabled]), summary, [tabindex]:not([tabindex='-1'])";
    const PRESSED = "[x-on\\:click]:not(a[href]):not(button):not(input):not(select):not(label)";
    // What an icon that is pressed by itself is called.
    const NAMES = {
        dock_to_right: "Show or hide the menu",
        close: "Close",
        more_horiz: "More",
        search: "Search",
        dark_mode: "Theme",
        light_mode: "Theme",
        computer: "Theme",
    };
    const PAGES = { o: "Overview", j: "Jobs", t: "Triggers", d: "Dead letters", p: "Operations" };
    const KEYS = [
        ["Ctrl + K", "Find anything"],
        ["/", "Search this list"],
        ["?", "This list of keys"],
        ["Escape", "Close what is open"],
        ["Ctrl + E", "Light or dark"],
        ...Object.entries(PAGES).map(([key, title]) => [`g ${key}`, title]),
    ];

    const isShown = (element) => element.getClientRects().length > 0;
    const within = (box) => [...box.querySelectorAll(FOCUSABLE)].filter(isShown);
    const isTyping = (element) =>
        element.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName);

    // Controls and icons, as they come into the page.

    function mend(root) {
        for (const element of root.querySelectorAll(PRESSED)) {
            if (element.id === "changelist-filter-close" || element.querySelector(FOCUSABLE)) continue;
            if (!element.hasAttribute("tabindex")) element.tabIndex = 0;
            if (!element.hasAttribute("role")) element.setAttribute("role", "button");
            name(element);
        }
        for (const element of root.querySelectorAll("a[href], button")) name(element);
        for (const icon of root.querySelectorAll(".material-symbols-outlined")) {
            if (!icon.hasAttribute("role")) icon.setAttribute("aria-hidden", "true");
        }
        // What scrolls, and holds nothing that takes the focus, would be out of reach.
        for (const box of root.querySelectorAll(".overflow-x-auto, [style*='overflow']")) {
            if (box.scrollWidth > box.clientWidth + 1 && !box.querySelector(FOCUSABLE)) box.tabIndex = 0;
        }
        // Of select2 and of Django's two-sided selection of many.
        for (const part of root.querySelectorAll(".select2-selection[role=combobox], .select2-selection__rendered[role]")) {
            const select = part.closest(".select2")?.previousElementSibling;
            const label = select?.labels?.[0]?.textContent.trim();
            if (label) part.setAttribute("aria-label", label);
        }
        for (const hint of root.querySelectorAll("span.help-tooltip[aria-label]")) hint.setAttribute("role", "img");
    }

    function name(element) {
        if (element.hasAttribute("aria-label") || element.title) return;
        const icons = element.matches(".material-symbols-outlined")
            ? [element]
            : [...element.querySelectorAll(".material-symbols-outlined")];
        const words = icons.reduce((text, icon) => text.replace(icon.textContent, ""), element.textContent);
        if (words.trim() && !element.matches(".material-symbols-outlined")) return;
        const icon = icons[0]?.textContent.trim();
        if (icon) element.setAttribute("aria-label", NAMES[icon] ?? icon.replaceAll("_", " "));
    }

    function pressByKey(event) {
        const control = event.target;
        const isKey = event.key === "Enter" || event.key === " ";
        if (!isKey || control.getAttribute?.("role") !== "button" || control.tagName === "BUTTON") return;
        event.preventDefault();
        control.click();
        requestAnimationFrame(() => enterMenu(control));
    }

    // Menus: the first entry takes the focus, Escape gives it back.

    function menuOf(control) {
        const template = control.parentElement.querySelector("template[x-teleport]");
        return template?._x_teleport ?? control.parentElement.querySelector("nav");
    }

    function enterMenu(control) {
        const menu = menuOf(control);
        if (!menu || menu.contains(control)) return;
        whenShown(menu, () => {
            within(menu)[0]?.focus();
            menu._opener = control;
        });
    }

    function leaveMenu(event) {
        const menu = event.key === "Escape" && event.target.closest?.("nav");
        if (!menu?._opener) return;
        menu._opener.click();
        menu._opener.focus();
        menu._opener = undefined;
    }

    // Dialogs and panels that cover the page.

    const open = [];

    function whenShown(box, act, tries = 30) {
        if (box.isConnected && isShown(box)) act();
        else if (tries) requestAnimationFrame(() => whenShown(box, act, tries - 1));
    }

    function entered(box, { label, close }) {
        const opener = document.activeElement;
        box.setAttribute("role", "dialog");
        box.setAttribute("aria-modal", "true");
        const heading = box.querySelector("h1, h2");
        box.setAttribute("aria-label", heading?.textContent.trim() || label);
        open.push({ box, opener, close });
        whenShown(box, () => {
            const all = within(box);
            const field = all.find((element) => isTyping(element));
            // Of a dialog that only asks, the way out takes the focus: Enter must not confirm by accident.
            (field ?? all.find((element) => element.closest("form")) ?? all[0])?.focus();
        });
    }

    function left(box) {
        const place = open.findIndex((layer) => layer.box === box);
        if (place < 0) return;
        const [{ opener }] = open.splice(place, 1);
        if (opener?.isConnected && isShown(opener)) opener.focus();
    }

    function keepWithin(event) {
        const layer = open.at(-1);
        if (!layer) return;
        if (event.key === "Escape" && !event.defaultPrevented) {
            layer.close();
            return;
        }
        if (event.key !== "Tab") return;
        const all = within(layer.box);
        if (!all.length) return;
        const at = all.indexOf(document.activeElement);
        const next = event.shiftKey ? (at <= 0 ? all.length - 1 : at - 1) : at === all.length - 1 ? 0 : at + 1;
        if (at < 0 || (event.shiftKey ? at === 0 : at === all.length - 1)) {
            event.preventDefault();
            all[next].focus();
        }
    }

    // ``flag`` of Alpine's ``host`` tells whether ``box`` is open.
    function follow(host, flag, box, label, close) {
        if (!host || !box) return;
        const data = window.Alpine.$data(host);
        if (!(flag in data)) return;
        const shut = () => (close ? data[close]() : (data[flag] = false));
        let was = false;
        window.Alpine.effect(() => {
            const is = Boolean(data[flag]);
            if (is && !was) entered(box, { label, close: shut });
            if (!is && was) left(box);
            was = is;
        });
    }

    // The list of keys: a <dialog> of the browser's own, which keeps and gives back the focus by itself.

    function showKeys() {
        let dialog = document.getElementById("keys");
        if (!dialog) {
            dialog = document.createElement("dialog");
            dialog.id = "keys";
            dialog.setAttribute("aria-labelledby", "keys-title");
            const title = document.createElement("h2");
            title.id = "keys-title";
            title.textContent = "Keys";
            const table = document.createElement("table");
            for (const [key, what] of KEYS) {
                const row = table.insertRow();
                const shown = document.createElement("kbd");
                shown.textContent = key;
                row.insertCell().append(shown);
                row.insertCell().textContent = what;
            }
            const close = document.createElement("button");
            close.type = "button";
            close.textContent = "Close";
            close.addEventListener("click", () => dialog.close());
            dialog.append(title, table, close);
            document.body.append(dialog);
        }
        if (!dialog.open) dialog.showModal();
    }

    let wentAt = 0;

    function shortcuts(event) {
        if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || open.length) return;
        if (event.key === "?") {
            event.preventDefault();
            showKeys();
        } else if (event.key === "g") {
            wentAt = event.timeStamp;
        } else if (event.timeStamp - wentAt < 1500 && event.key in PAGES) {
            const links = document.querySelectorAll("#nav-sidebar a[href]");
            const link = [...links].find((found) => found.textContent.includes(PAGES[event.key]));
            if (link) window.location = link.href;
        }
    }

    // Alpine sees its own handler of Ctrl+K only while nothing is typed into; the palette is wanted anywhere.
    function findAnywhere(event) {
        if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || !isTyping(event.target)) return;
        event.preventDefault();
        window.dispatchEvent(new CustomEvent("opencommand"));
    }

    // Enter opens what is chosen, or the first; before anything is found it would be an error of Unfold's.
    function openFound(event) {
        if (event.key !== "Enter" || event.target.id !== "search-input-command") return;
        const data = window.Alpine.$data(event.target);
        if (!data.items?.length) event.stopPropagation();
        else if (!data.currentIndex) data.currentIndex = 1;
    }

    document.addEventListener("keydown", openFound, { capture: true });
    document.addEventListener("keydown", pressByKey);
    document.addEventListener("keydown", leaveMenu);
    document.addEventListener("keydown", keepWithin);
    document.addEventListener("keydown", shortcuts);
    document.addEventListener("keydown", findAnywhere);

    document.addEventListener("DOMContentLoaded", () => {
        const content = document.getElementById("content");
        if (content) content.tabIndex = -1;
        if (!document.querySelector("main")) document.getElementById("page")?.setAttribute("role", "main");
        mend(document);
        window.addEventListener("resize", () => mend(document));
        new MutationObserver((records) => {
            if (records.some((record) => record.addedNodes.length)) mend(document);
        }).observe(document.body, { childList: true, subtree: true });
    });

    // What fits into a wide window may scroll in a narrow one.
    window.addEventListener("resize", () => mend(document));

    document.addEventListener("alpine:initialized", () => {
        const root = document.documentElement;
        follow(root, "openModal", document.getElementById("modal-content"), "Confirm");
        follow(root, "filterOpen", document.getElementById("changelist-filter"), "Filters");
        follow(document.body, "sidebarMobileOpen", document.getElementById("nav-sidebar"), "Menu");
        const palette = document.getElementById("search-input-command")?.closest("[x-data]");
        follow(palette, "openCommandResults", palette, "Find anything", "handleOutsideClick");
        const input = document.getElementById("search-input-command");
        if (input) {
            input.placeholder = "Id or its first eight digits, job, tenant/job, idempotency key, page";
            input.setAttribute("aria-label", "Find anything");
        }
        // The page was hidden until now, and what is hidden takes no focus.
        requestAnimationFrame(() => document.querySelector("[autofocus]")?.focus());
    });
})();
