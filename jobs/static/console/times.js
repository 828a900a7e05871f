// Times in the reader's zone, if one is chosen in the menu of the user; the choice is this browser's. What the server
// wrote, UTC, stays in the page for who points at a time, and is what is shown without this script.
(() => {
    "use strict";

    const KEY = "carillon.zone";
    const UTC = "UTC";
    // Browsers list some zones by names that nobody uses any more, and take the present ones all the same.
    const RENAMED = {
        "Asia/Calcutta": "Asia/Kolkata",
        "Asia/Katmandu": "Asia/Kathmandu",
        "Asia/Rangoon": "Asia/Yangon",
        "Asia/Saigon": "Asia/Ho_Chi_Minh",
        "Europe/Kiev": "Europe/Kyiv",
        "Atlantic/Faeroe": "Atlantic/Faroe",
        "America/Godthab": "America/Nuuk",
        "Africa/Asmera": "Africa/Asmara",
        "Pacific/Ponape": "Pacific/Pohnpei",
        "Pacific/Truk": "Pacific/Chuuk",
    };
    const renamed = (zone) => RENAMED[zone] ?? zone;
    const own = renamed(Intl.DateTimeFormat().resolvedOptions().timeZone);
    const formats = new Map();

    function chosen() {
        const zone = localStorage.getItem(KEY) || UTC;
        try {
            formatOf(zone);
        } catch {
            return UTC;
        }
        return zone;
    }

    function formatOf(zone) {
        if (!formats.has(zone)) {
            const parts = {
                timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit",
                hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
                timeZoneName: "longOffset",
            };
            formats.set(zone, new Intl.DateTimeFormat("en-GB", parts));
        }
        return formats.get(zone);
    }

    // "2030-01-31 07:30:00.000 +05:30": by offset, since abbreviations mean several zones.
    function textOf(instant, zone) {
        const found = formatOf(zone).formatToParts(instant);
        const part = (type) => found.find((one) => one.type === type).value;
        const offset = part("timeZoneName").replace("GMT", "") || "+00:00";
        const day = `${part("year")}-${part("month")}-${part("day")}`;
        return `${day} ${part("hour")}:${part("minute")}:${part("second")}.${part("fractionalSecond")} ${offset}`;
    }

    // A time that names a zone other than UTC is shown in it on purpose: that of a job.
    function show(time, zone) {
        const instant = new Date(time.dateTime);
        if (Number.isNaN(instant.getTime())) return;
        if (time._utc === undefined) {
            time._title = time.title;
            time._utc = time._title || time.textContent.trim();
            time._absolute = !time._title;
        }
        if (!time._utc.endsWith(UTC)) return;
        const text = zone === UTC ? time._utc : textOf(instant, zone);
        if (time._absolute) {
            if (time.textContent !== text) time.textContent = text;
            time.title = zone === UTC ? time._title : time._utc;
        } else {
            time.title = zone === UTC ? time._utc : `${text} (${time._utc})`;
        }
    }

    function showAll(root = document) {
        const zone = chosen();
        for (const time of root.querySelectorAll("time[datetime]")) show(time, zone);
    }

    function offer(select) {
        const zones = [UTC, own, ...Intl.supportedValuesOf("timeZone").map(renamed).sort()];
        for (const zone of new Set(zones)) {
            select.add(new Option(zone === own && own !== UTC ? `${zone} (this browser's)` : zone, zone));
        }
        select.value = chosen();
        select.disabled = false;
        select.addEventListener("change", () => {
            localStorage.setItem(KEY, select.value);
            showAll();
        });
    }

    document.addEventListener("DOMContentLoaded", () => {
        const select = document.getElementById("reader-zone");
        if (select) offer(select);
        if (chosen() !== UTC) showAll();
    });
    document.addEventListener("htmx:afterSettle", (event) => {
        if (chosen() !== UTC) showAll(event.target.parentElement ?? document);
    });
})();
