"use strict";

const { objectives, points } = JSON.parse(document.getElementById("figures").textContent);
/* Nothing on the page may carry figures of a cluster elsewhere. */
const CONFIG = {
  responsive: true,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};
const KINDS = [
  { name: "found", keep: (point) => !point.extreme && point.holds, symbol: "circle", colour: "--better" },
  { name: "beaten on the samples held out", keep: (point) => !point.extreme && !point.holds, symbol: "circle-open", colour: "--better" },
  { name: "extremes", keep: (point) => point.extreme, symbol: "diamond", colour: "--worse" },
];
const choice = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let chosen = -1;

function axis(at) {
  return {
    title: { text: objectives[at].said, standoff: 10 },
    rangemode: "tozero",
    gridcolor: css("--line"),
    linecolor: css("--line"),
    zeroline: false,
    automargin: true,
  };
}

function draw() {
  const [across, up, side] = [Number(choice("across").value), Number(choice("up").value), choice("side").value];
  const traces = KINDS.map(({ name, keep, symbol, colour }) => {
    const shown = points.map((point, at) => ({ ...point, at })).filter(keep);
    return {
      type: "scatter",
      mode: "markers",
      name,
      x: shown.map((point) => point[side][across]),
      y: shown.map((point) => point[side][up]),
      customdata: shown.map((point) => point.at),
      hovertext: shown.map((point) => [`<b>${point.name}</b>`, ...objectives.map((objective, at) => `${objective.name} ${point[`${side}_said`][at]}`)].join("<br>")),
      hoverinfo: "text",
      marker: { symbol, color: css(colour), size: shown.map((point) => (point.at === chosen ? 16 : 10)), line: { width: 2, color: css(colour) } },
    };
  });
  const family = getComputedStyle(document.body).fontFamily;
  const layout = {
    xaxis: axis(across),
    yaxis: axis(up),
    hovermode: "closest",
    margin: { l: 60, r: 20, t: 10, b: 50 },
    legend: { orientation: "h", y: 1.08 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--ink"), family, size: 12.5 },
    hoverlabel: { bgcolor: css("--mark"), bordercolor: css("--line"), font: { color: css("--ink"), family }, align: "left" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--faint"), activecolor: css("--ink") },
  };
  Plotly.react("front", traces, layout, CONFIG);
}

function choose(at) {
  chosen = at;
  choice("line").textContent = points[at].line;
  for (const row of document.querySelectorAll("tr[data-point]")) row.classList.toggle("chosen", Number(row.dataset.point) === at);
  draw();
}

choice("up").value = "1";
draw();
choice("front").on("plotly_click", ({ points: [point] }) => choose(point.customdata));
for (const row of document.querySelectorAll("tr[data-point]")) row.addEventListener("click", () => choose(Number(row.dataset.point)));
for (const id of ["across", "up", "side"]) choice(id).addEventListener("change", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
