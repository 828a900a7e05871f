"""Lag over time with a bar for each fault, as an SVG drawn by hand: a point is a firing at its instant."""

import math
from xml.sax.saxutils import escape

from chaos.judge import Case
from chaos.judge.timing import lags
from chaos.judge.workflows.told import told

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 1200, 420, 60, 30, 40
#: Decades of the vertical scale, in seconds.
MIN_SECONDS, MAX_SECONDS = 0.001, 100.0


def chart(case: Case) -> str:
    """The whole run as one picture; times are seconds since the first firing."""
    points = lags(case, told(case))
    start = points[0].due_at if points else 0.0
    span = max(case.closed_at - start, 1.0)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * min(max((at - start) / span, 0.0), 1.0)

    parts = [*_frame(), *_marks(span, x, start)]
    for window in case.windows:
        left, right = x(window.struck_at), x(window.healed_at)
        parts.append(
            f'<rect class="fault" x="{left:.1f}" y="{TOP}" width="{max(right - left, 2):.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM}"><title>{escape(window.what)}</title></rect>'
            f'<text x="{left + 2:.1f}" y="{TOP - 6}">{window.number}</text>'
        )
    parts += [f'<circle cx="{x(lag.due_at):.1f}" cy="{_y(lag.seconds):.1f}" r="2"/>' for lag in points]
    return "\n".join([*parts, "</svg>\n"])


def _y(seconds: float) -> float:
    share = math.log(max(seconds, MIN_SECONDS) / MIN_SECONDS) / math.log(MAX_SECONDS / MIN_SECONDS)
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(share, 1.0)


def _frame() -> list[str]:
    style = (
        "text{font:12px sans-serif;fill:#555} line{stroke:#ddd} circle{fill:#9333ea;fill-opacity:.55}"
        " .fault{fill:#f59e0b;fill-opacity:.25}"
    )
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f'<style>{style}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="{HEIGHT - 4}">seconds; a point: a firing, by how late it started; bars: faults</text>',
    ]


def _marks(span: float, x: object, start: float) -> list[str]:
    parts = []
    for power in range(round(math.log10(MIN_SECONDS)), round(math.log10(MAX_SECONDS)) + 1):
        y = _y(10.0**power)
        name = f"{10.0**power:g} s" if power >= 0 else f"{10.0 ** (power + 3):g} ms"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="4" y="{y + 4:.1f}">{name}</text>')
    step = max(10, 10 * round(span / 120))
    for seconds in range(0, int(span) + 1, step):
        parts.append(f'<text x="{x(start + seconds):.1f}" y="{HEIGHT - BOTTOM + 16}">{seconds}</text>')  # type: ignore[operator]
    return parts
