"""Plots of one experiment, as SVG to stand in a page. Each is drawn twice, for a wide and for a narrow window, since a
picture that is scaled down has letters that nobody can read."""

import io
import math
import os
import re
import tempfile
import textwrap

os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp(prefix="steady-matplotlib-"))

import matplotlib                   # noqa: E402

matplotlib.use("svg")

import matplotlib.pyplot as plt     # noqa: E402
import matplotlib.ticker            # noqa: E402

from .experiment import median_series       # noqa: E402

# Okabe and Ito's colours, which the colour-blind can tell apart; dashes and marks for those who see none.
STYLES = {
    "btree": ("#D55E00", "--", "s"),
    "steady": ("#0072B2", "-", "o"),
    "steady, kills off": ("#56B4E9", "-.", "^"),
    "hash": ("#009E73", ":", "D"),
    "gist": ("#CC79A7", (0, (5, 1)), "v"),
}
OTHERS = (("#000000", "-", "x"), ("#E69F00", "--", "+"), ("#999999", ":", "*"))
WIDTHS = {"wide": 10.2, "narrow": 4.3}
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "steady", "font.family": ["DejaVu Sans", "sans-serif"], "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9, "axes.titlelocation": "left",
    "axes.edgecolor": "#888888", "axes.grid": True, "grid.color": "#e3e3e3", "axes.axisbelow": True,
    "lines.linewidth": 1.6, "xtick.color": "#444444", "ytick.color": "#444444"})


def style(arm, number=0):
    return STYLES.get(arm) or OTHERS[number % len(OTHERS)]


def svg(figure, name, title):
    """The figure as an element: no prolog, ids of its own, as wide as the page lets it."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'(<svg [^>]*?)height="[^"]*"', r"\1", text, count=1)
    title = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def both(draw, name, title):
    """draw(width in inches, narrow?) for each kind of window."""
    return {kind: svg(draw(width, kind == "narrow"), f"{name}-{kind}", title) for kind, width in WIDTHS.items()}


def number(value, _position=None):
    """Few digits, thousands apart."""
    if value == int(value):
        return f"{value:,.0f}"
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if abs(value) < 10 else f"{value:,.0f}"


def lines(result, name, slug):
    """A panel a case: how the series went in each arm; the band is from the least to the most of the rounds."""
    panels = [(case, series) for case in result["cases"] for series in case["series"]
              if series["name"] == name and any(points for r in series["rounds"] for points in r.values())]
    if not panels:
        return None

    def draw(width, narrow):
        columns = 1 if narrow else min(3, len(panels))
        rows = math.ceil(len(panels) / columns)
        figure, axes = plt.subplots(rows, columns, figsize=(width, 0.15 + 2.45 * rows), squeeze=False,
                                    layout="constrained")
        for axis in axes.flat[len(panels):]:
            axis.set_visible(False)
        for axis, (case, series) in zip(axes.flat, panels):
            for count, arm in enumerate(case["arms"]):
                points = median_series(series["rounds"], arm)
                if not points:
                    continue
                colour, dashes, mark = style(arm, count)
                xs = [p[0] for p in points]
                axis.plot(xs, [p[1] for p in points], color=colour, linestyle=dashes,
                          marker=mark if len(xs) <= 12 else None, markersize=4)
                axis.fill_between(xs, [p[2] for p in points], [p[3] for p in points], color=colour, alpha=0.15,
                                  linewidth=0)
            if series["log"]:
                axis.set_xscale("log")
                axis.set_yscale("log")
            else:
                axis.set_ylim(0, axis.dataLim.ymax * 1.1 if axis.dataLim.ymax > 0 else 1)
                axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(6, integer=True, min_n_ticks=1))
            for side in (axis.xaxis, axis.yaxis):
                side.set_major_formatter(matplotlib.ticker.FuncFormatter(number))
                side.set_minor_formatter(matplotlib.ticker.NullFormatter())
            axis.set_title("\n".join(textwrap.wrap(case["label"] or name, 46 if narrow else 38)))
            axis.set_ylabel(f"{name}, {series['unit']}" if series["unit"] else name)
            axis.set_xlabel(series["x"])
        return figure

    return both(draw, slug, f"{result['title']}: {name}")


def bars(result, slug):
    """A bar for each figure: how many times btree's, from 1 outwards; the line is from the least to the most round."""
    wanted = set(result["plotted"])
    found = [(case, figure, what, told) for case in result["cases"] for figure in case["figures"]
             if figure["better"] and figure["name"] in wanted for what, told in figure["ratios"].items()
             if told["least"] > 0]      # there is no place for nought on a logarithmic axis
    if not found:
        return None
    found.reverse()

    def draw(width, narrow):
        height = 0.75 + (0.52 if narrow else 0.27) * len(found)
        figure, axis = plt.subplots(figsize=(width, height), layout="constrained")
        names = []
        for place, (case, told_figure, what, told) in enumerate(found):
            value, less = told["median"], told_figure["better"] == "less"
            good = (value <= 1) == less or value == 1
            colour = STYLES["steady"][0] if good else STYLES["btree"][0]
            axis.barh(place, value - 1, left=1, height=0.62, color=colour, hatch=None if good else "////",
                      edgecolor="white", linewidth=0)
            axis.plot([told["least"], told["most"]], [place, place], color="#222222", linewidth=1.2)
            shown = f"{value:.2g}" if value < 0.1 else f"{value:.{2 if value < 10 else 0}f}"
            axis.annotate(shown, (max(1, told["most"], value), place),
                          textcoords="offset points", xytext=(5, 0), va="center", fontsize=8)
            arm = "" if len(case["arms"]) == 2 else f" ({what.split(' / ')[0]})"
            label = ": ".join(filter(None, [case["name"], told_figure["name"]])) + arm
            names.append("\n".join(textwrap.wrap(label, 22)) if narrow else label)
        values = [v for _, _, _, t in found for v in (t["least"], t["most"], 1)]
        axis.set_xscale("log")
        low, high = min(values), max(values)
        axis.set_xlim(low / 1.15, high * (high / low * 1.3) ** (0.28 if narrow else 0.1))
        fine = [mantissa * 10.0 ** power for power in range(-6, 7) for mantissa in (1, 2, 5)]
        ticks = [t for t in fine if low / 1.2 <= t <= high * 1.2]
        if len(ticks) < 3:
            ticks = [t for t in (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2) if low / 1.1 <= t <= high * 1.1]
        if len(ticks) > (6 if narrow else 12):
            ticks = [t for t in ticks if t in fine[::3]]
        axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axis.axvline(1, color="#222222", linewidth=1)
        axis.set_yticks(range(len(names)), names)
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="y", visible=False)
        axis.set_ylim(-0.7, len(found) - 0.3)
        axis.set_xlabel("times btree's (logarithmic)" if narrow else
                        "times btree's, logarithmic; line: least to most of the rounds; hatched: worse than btree")
        return figure

    return both(draw, slug, f"{result['title']}: ratios to btree")
