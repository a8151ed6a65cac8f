"use strict";

const shown = JSON.parse(document.getElementById("figures").textContent);
const COLOURS = ["#3b82c4", "#e07b1a", "#2fa36b", "#d64550", "#9b6fd0", "#a5744a", "#d869a8", "#1ba3b8", "#8f9a1f"];
/* Nothing on the page may carry names of users elsewhere. */
const CONFIG = {
  responsive: true,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};
const TIMES = ["days", "hours", "minutes", "seconds"];
const hidden = new Set();

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function span(seconds) {
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds >= size) || [1, "s"];
  return `${Number((seconds / size).toPrecision(3))} ${unit}`;
}

/* The baseline is ink and dashed; the others take the colours in turn, dotted when they come round again. */
function stroke(policy) {
  if (shown.policies[policy].baseline) return { color: css("--ink"), dash: "dash", width: 2 };
  const at = policy - shown.policies.slice(0, policy).filter((other) => other.baseline).length;
  return { color: COLOURS[at % COLOURS.length], dash: at < COLOURS.length ? "solid" : "dot", width: 2 };
}

function axis(given) {
  const ink = { gridcolor: css("--line"), linecolor: css("--line"), zeroline: false, automargin: true };
  const title = given.title ? { ...given.title, standoff: 10 } : undefined;
  return { ...ink, ...given, title };
}

function layout(figure) {
  const given = figure.layout;
  const family = getComputedStyle(document.body).fontFamily;
  return {
    ...given,
    xaxis: axis(given.xaxis),
    yaxis: axis(given.yaxis),
    showlegend: false,
    hovermode: "closest",
    margin: { l: 60, r: 20, t: 30, b: 50 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--ink"), family, size: 12.5 },
    hoverlabel: { bgcolor: css("--mark"), bordercolor: css("--line"), font: { color: css("--ink"), family }, align: "left" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--faint"), activecolor: css("--ink") },
    shapes: figure.mark
      ? [{ type: "line", x0: figure.mark, x1: figure.mark, yref: "paper", y0: 0, y1: 1, line: { color: css("--faint"), width: 1, dash: "dot" } }]
      : [],
  };
}

function line(trace) {
  const said = {
    spans: { text: trace.x.map(span), hovertemplate: "%{y:.2%} of jobs within %{text}" },
    ratio: { hovertemplate: "%{y:.2%} of jobs at or under %{x:.3g}" },
  };
  const { policy, kind, ...rest } = trace;
  const hover = TIMES.includes(kind) ? { hovertemplate: `%{y:,.4~g} after %{x:.4~g} ${kind}` } : said[kind];
  hover.hovertemplate = `<b>${trace.name}</b><br>${hover.hovertemplate}<extra></extra>`;
  return { ...rest, ...hover, line: { ...trace.line, ...stroke(policy) }, visible: !hidden.has(policy) };
}

function bars(trace) {
  const { before_s, after_s, ...rest } = trace;
  return {
    ...rest,
    hovertext: trace.hovertext.map((text, at) => `${text}<br>from ${span(before_s[at])} to ${span(after_s[at])}`),
    marker: { color: trace.x.map((value) => css(value > 0 ? "--worse" : "--better")) },
  };
}

function drawCurves() {
  for (const chart of shown.charts) {
    const upper = ({ policy }) => Number(shown.policies[policy].baseline);
    const traces = [...chart.data].sort((one, other) => upper(one) - upper(other));
    Plotly.react(`chart-${chart.key}`, traces.map(line), layout(chart), CONFIG);
  }
}

function drawHarm() {
  const choice = document.getElementById("harm");
  if (!choice) return;
  const harm = shown.harm[Number(choice.value)];
  for (const [key, noun] of [["users", "users"], ["virtual_clusters", "virtual clusters"]]) {
    const place = document.getElementById(`chart-${key}`);
    const figure = harm[key];
    if (!place || !figure) continue;
    document.getElementById(`said-${key}`).textContent =
      `${figure.worse} of ${figure.count} ${noun} have a mean JCT worse by more than 10 %.`;
    place.style.height = `${figure.layout.height}px`;
    Plotly.react(place, figure.data.map(bars), layout(figure), { ...CONFIG, displayModeBar: false });
  }
}

function drawLegend() {
  document.getElementById("legend").replaceChildren(
    ...shown.policies.map(({ name }, policy) => {
      const button = document.createElement("button");
      const swatch = document.createElement("i");
      const { color, dash } = stroke(policy);
      swatch.style.borderTopColor = color;
      swatch.style.borderTopStyle = { solid: "solid", dash: "dashed", dot: "dotted" }[dash];
      button.append(swatch, name);
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden.has(policy)));
      button.addEventListener("click", () => {
        if (!hidden.delete(policy)) hidden.add(policy);
        button.setAttribute("aria-pressed", String(!hidden.has(policy)));
        drawCurves();
      });
      return button;
    }),
  );
}

function drawAll() {
  drawLegend();
  drawCurves();
  drawHarm();
}

drawAll();
document.getElementById("harm")?.addEventListener("change", drawHarm);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
