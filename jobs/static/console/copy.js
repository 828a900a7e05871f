// A button beside what is copied as it stands, such as an id. Where the clipboard is out of reach (plain HTTP, but for
// this machine) it selects the text instead.
(() => {
    "use strict";

    function copy(text, button) {
        const say = (word) => (button.textContent = word);
        if (navigator.clipboard) {
            navigator.clipboard.writeText(text.textContent).then(() => say("Copied"), () => select(text));
        } else {
            select(text);
        }
    }

    function select(text) {
        getSelection().selectAllChildren(text);
    }

    document.addEventListener("DOMContentLoaded", () => {
        for (const text of document.querySelectorAll("[data-copy]")) {
            const button = document.createElement("button");
            button.type = "button";
            button.className = "copy";
            button.textContent = "Copy";
            button.addEventListener("click", () => copy(text, button));
            text.after(" ", button);
        }
    });
})();
