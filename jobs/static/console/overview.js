// Fetches the overview's figures again while the page is seen. How often is remembered in this browser.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
    const KEY = "carillon-refresh-seconds";
    const figures = document.getElementById("figures");
    const every = document.getElementById("refresh-every");
    const failed = document.getElementById("refresh-failed");
    if (!figures || !every) {
        return;
    }
    let timer;
    let lastAnswer = new Date();

    const remembered = localStorage.getItem(KEY);
    if ([...every.options].some((option) => option.value === remembered)) {
        every.value = remembered;
    }
    document.getElementById("refreshing").hidden = false;

    const fetchFigures = async () => {
        // A frozen server would keep the figures that are shown looking new.
        const patience = AbortSignal.timeout(4000);
        try {
            const answer = await fetch(figures.dataset.url, {signal: patience, credentials: "same-origin"});
            if (!answer.ok || answer.redirected) {
                throw new Error(`${answer.status}`);
            }
            const text = await answer.text();
            replaceFigures(text);
            lastAnswer = new Date();
            failed.hidden = true;
        } catch {
            document.getElementById("refresh-failed-since").textContent = lastAnswer.toLocaleTimeString();
            failed.hidden = false;
        }
    };

    const replaceFigures = (text) => {
        // Whoever is on a link with the keyboard stays on it.
        const link = figures.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        figures.innerHTML = text;
        if (link !== null) {
            const again = [...figures.querySelectorAll("a")].find((one) => one.getAttribute("href") === link);
            again?.focus({preventScroll: true});
        }
    };

    const plan = () => {
        clearInterval(timer);
        const seconds = Number(every.value);
        if (seconds > 0) {
            timer = setInterval(() => {
                if (document.visibilityState === "visible") {
                    fetchFigures();
                }
            }, seconds * 1000);
        }
    };

    every.addEventListener("change", () => {
        localStorage.setItem(KEY, every.value);
        plan();
    });
    document.addEventListener("visibilitychange", () => {
        if (document.visibilityState === "visible" && Number(every.value) > 0) {
            fetchFigures();
        }
    });
    plan();
});
