"""The report: one page by itself, from the same object that results.json holds."""

import collections
import html
import re

from . import plots
from .places import SEVERITIES

STYLE = """
:root { color-scheme: light; --line: #d5d5d5; --soft: #f5f5f3; }
* { box-sizing: border-box; }
html { font-size: 16px; }
body { font: .94rem/1.45 "DejaVu Sans", Arial, Helvetica, sans-serif; color: #1d1d1d; background: white; margin: 0 auto;
       max-width: 1060px; padding: 16px; }
h1 { font-size: 1.6rem; margin: .3em 0; } h2 { font-size: 1.25rem; margin: 2.2em 0 .3em; border-top: 2px solid #333;
padding-top: .5em; } h3 { font-size: 1rem; margin: 1.4em 0 .3em; }
.scroll { overflow-x: auto; } table.facts td:first-child { white-space: nowrap; width: 1%; }
table.facts td { overflow-wrap: anywhere; } table.facts thead { display: none; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; } caption { text-align: left; font-weight: bold; }
th, td { text-align: left; vertical-align: top; padding: 4px 8px 4px 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td.n, th.n { text-align: right; white-space: nowrap; }
code, pre { font-family: "DejaVu Sans Mono", monospace; font-size: .82rem; overflow-wrap: anywhere;
            white-space: pre-wrap; }
.badge { display: inline-block; padding: 0 .5em; border-radius: .6em; font-weight: 600; white-space: nowrap;
         border: 1.5px solid #777; color: #444; }
.met { border-color: #0072B2; color: #004c77; background: #e5f1f8; } .met::before { content: "✓ "; }
.not-met { border-color: #D55E00; color: #8a3d00; background: #fbeee4; } .not-met::before { content: "✗ "; }
.small { color: #555; font-size: .85em; } .legend span { margin-right: 1.2em; white-space: nowrap; }
.legend svg { width: 34px; height: 10px; vertical-align: middle; margin-right: .3em; }
figure { margin: .6em 0; break-inside: avoid; } figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: .86rem; font-weight: 600; } .narrow { display: none; }
details { margin: .7em 0; border: 1px solid var(--line); padding: .4em .7em; background: var(--soft); }
summary { cursor: pointer; }
.fault { border-left: 4px solid #D55E00; padding: .2em .8em; background: #fbeee4; overflow-wrap: anywhere; }
@media (max-width: 640px) { body { padding: 10px; } .wide { display: none; } .narrow { display: block; }
  table.verdicts td, table.verdicts th { padding-right: 5px; font-size: .8rem; }
  table.verdicts td:nth-child(1) { max-width: 25vw; } table.verdicts td:nth-child(2) { overflow-wrap: anywhere; }
  td.n, th.n { white-space: normal; } }
@media print { html { font-size: 11px; } body { padding: 0; max-width: none; } h2, h3 { break-after: avoid; }
  tr { break-inside: avoid; } .wide { display: block; } .narrow { display: none; } a { color: inherit; text-decoration: none; } }
"""


def e(text):
    return html.escape(str(text))


def prose(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", e(text))


def number(value):
    if value is None:
        return "–"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if size < 0.1 else f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def with_unit(text, unit):
    return f"{text} {unit}" if unit else text


def spread(told):
    """Least to most of the rounds, where there are several."""
    return f"{number(told['least'])} … {number(told['most'])}" if told and told["rounds"] > 1 else ""


def interval(told):
    return f"{number(told['interval'][0])} … {number(told['interval'][1])}" if told and told["interval"] else ""


def table(head, rows, kind=""):
    """head: texts, a leading '>' for a column of numbers; cells are HTML."""
    numeric = [h.startswith(">") for h in head]
    opened = [f'<{{0}} class="n">' if n else "<{0}>" for n in numeric]
    out = [f'<div class="scroll"><table class="{kind}"><thead><tr>']
    out += [o.format("th") + e(h.lstrip(">")) + "</th>" for o, h in zip(opened, head)]
    out.append("</tr></thead><tbody>")
    for row in rows:
        out += ["<tr>", *(o.format("td") + cell + "</td>" for o, cell in zip(opened, row)), "</tr>"]
    out.append("</tbody></table></div>")
    return "".join(out)


def verdict_row(result, verdict):
    found = verdict["found"]
    unit = "×" if verdict["ratio"] else ""
    case = f" · {e(verdict['case'])}" if verdict["case"] else ""
    name = f'<a href="#{e(result["name"])}">{e(result["name"])}</a>'
    # Below 1 a third digit: 0.97 may be a little less than 0.97.
    value = f"{found['median']:.3f}" if found and 0.1 <= found["median"] < 1 else number(found and found["median"])
    value = f"<b>{value}</b>{unit}" if found else value
    if interval(found):
        value += f'<br><span class="small">{interval(found)}</span>'
    note = f'<br><span class="small">{e(verdict["note"])}</span>' if verdict["note"] else ""
    badge = f'<span class="badge {verdict["verdict"].replace(" ", "-")}">{e(verdict["verdict"])}</span>'
    what = f'<span class="small">{e(verdict["figure"])}: {e(verdict["what"])}</span>'
    return [badge + note, f"{name}{case}<br>{what}", value, e(verdict["target"])]


def legend(arms):
    parts = []
    for count, arm in enumerate(arms):
        colour, dashes, _ = plots.style(arm, count)
        dash = {"--": "7 3", ":": "2 2", "-.": "7 2 2 2", "-": "none"}.get(dashes, "9 2")
        parts.append('<span><svg viewBox="0 0 34 10" aria-hidden="true">'
                     f'<line x1="0" y1="5" x2="34" y2="5" stroke="{colour}" stroke-width="3" '
                     f'stroke-dasharray="{dash}"/></svg>{e(arm)}</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def picture(drawn, caption):
    if not drawn:
        return ""
    return (f'<figure><figcaption>{e(caption)}</figcaption><div class="wide">{drawn["wide"]}</div>'
            f'<div class="narrow">{drawn["narrow"]}</div></figure>')


def stacked(told, below):
    return f'{number(told["median"]) if told else "–"}<br><span class="small">{below(told)}</span>'


def case_table(case):
    arms = case["arms"]
    rows = []
    for figure in case["figures"]:
        row = [e(with_unit(figure["name"] + ",", figure["unit"]) if figure["unit"] else figure["name"])]
        for arm in arms:
            told = figure["arms"][arm]
            row.append(stacked(told, spread))
        for arm in arms:
            if arm != "btree" and "btree" in arms:
                told = figure["ratios"].get(f"{arm} / btree")
                row.append(stacked(told, interval))
        rows.append(row)
    head = ["median; least … most", *(">" + arm for arm in arms),
            *(f">{arm} / btree" for arm in arms if arm != "btree" and "btree" in arms)]
    title = ": ".join(filter(None, [case["name"], case["label"]]))
    return (f"<h3>{e(title)}</h3>" if title else "") + table(head, rows)


def raw(result):
    rows = []
    for case in result["cases"]:
        for figure in case["figures"]:
            for arm in case["arms"]:
                values = [number(r.get(arm)) for r in figure["rounds"]]
                inner = (figure["arms"][arm] or {}).get("trimmed")
                name = with_unit(figure["name"] + ",", figure["unit"]).rstrip(",")
                trimmed = f"{number(inner['mean'])} ± {number(inner['deviation'])}" if inner else ""
                rows.append([*map(e, (case["name"], name, arm, "  ".join(values), trimmed))])
    shown = table(["case", "figure", "arm", "rounds", "mean ± deviation without best and worst"], rows)
    return f"<details><summary>Raw figures, round by round</summary>{shown}</details>"


def log_table(result):
    if not result["log"]:
        return '<p class="small">The server’s log was not searched: it is not ours to read.</p>'
    rows = [[e(arm), *(str(log[s]) for s in SEVERITIES)] for arm, log in result["log"].items()]
    sums = ", ".join(f"{sum(log[s] for log in result['log'].values())} {s}" for s in SEVERITIES)
    lines = [line for log in result["log"].values() for line in log["samples"]]
    shown = f"<pre>{e(chr(10).join(lines))}</pre>" if lines else ""
    return (f"<details><summary>Lines in the server’s log: {sums}</summary>"
            f"{table(['arm', *('>' + s for s in SEVERITIES)], rows)}{shown}</details>")


def fault(where, failure):
    return (f'<p class="fault"><b>{e(where)}{e(failure["arm"])} failed</b> {e(failure["case"])}: '
            f'{e(failure["error"])}</p>')


def section(result):
    out = [f'<h2 id="{e(result["name"])}">{e(result["name"])}: {e(result["title"])}</h2>']
    out += [f"<p>{prose(paragraph)}</p>" for paragraph in result["text"].split("\n\n")]
    parameters = ", ".join(f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}"
                           for key, value in result["parameters"].items())
    out.append(f'<p class="small">Size: {e(result["size"])} ({e(parameters)}). Rounds: {result["rounds"]} at most. '
               f'Took {result["seconds"]:.0f} s. Load average at the end: {number(result.get("load"))}.</p>')
    for failure in result["failures"]:
        out.append(fault("", failure))
    names = list(dict.fromkeys(series["name"] for case in result["cases"] for series in case["series"]))
    arms = list(dict.fromkeys(arm for case in result["cases"] for arm in case["arms"]))
    if names:
        out.append(legend(arms))
    for count, name in enumerate(names):
        out.append(picture(plots.lines(result, name, f"{result['name']}-{count}"),
                           f"{name}: median; band: least to most of the rounds"))
    out.append(picture(plots.bars(result, f"{result['name']}-bars"), "beside btree: median of the paired ratios"))
    out += [case_table(case) for case in result["cases"]]
    if result["skipped"]:
        out.append(table(["passed over", "why"], [[e(": ".join(filter(None, [s["case"], s.get("arm")])) or "all"),
                                                   e(s["reason"])] for s in result["skipped"]]))
    settings = "\n".join(f"{name} = {value}" for name, value in result["settings"].items())
    out += [raw(result), log_table(result),
            f"<details><summary>Settings of the server</summary><pre>{e(settings)}</pre></details>"]
    return "\n".join(out)


def page(told):
    environment, results = told["environment"], told["experiments"]
    verdicts = [(result, verdict) for result in results for verdict in result["verdicts"]]
    kinds = collections.Counter(verdict["verdict"] for _, verdict in verdicts)
    counts = ", ".join(f"<b>{kinds[kind]}</b> {kind}" for kind in ("met", "not met", "not judged", "no figures")
                       if kinds[kind])
    facts = [[e(key), f"<code>{e(value)}</code>" if key in ("command", "commit") else e(value)]
             for key, value in environment.items()]
    failed = "".join(fault(f"{r['name']}: ", f) for r in results for f in r["failures"])
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>steady: measured {e(environment["date"])}</title><style>{STYLE}</style></head><body>
<h1>steady, measured beside btree</h1>
{table(["", ""], facts, "facts")}
<p>Targets: {counts or "none"}. Arms took turns in one run, so ratios compare like with like; absolute figures depend on
the machine and on who else used it. A ratio’s value is the median of the rounds’ own ratios. Small figures are 95 % intervals
here, least … most in the tables of medians. “No loss” is met where the interval of the ratio reaches 1.</p>
{failed}
<h2>Verdicts</h2>
{table(["verdict", "figure", ">found", "target"], [verdict_row(*pair) for pair in verdicts], "verdicts")}
{chr(10).join(section(result) for result in results)}
</body></html>
"""
