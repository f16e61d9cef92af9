// Data colours remain distinguishable with red or green colour blindness and have a contrast of at
// least 3 to 1 to the cards in both schemes; text has at least 4.5 to 1.
#include "report/report_style.h"

namespace rl {

const char* const kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f6f4; --card: #ffffff; --edge: #e2e2dd; --grid: #e9e9e4;
  --text: #1d1f23; --soft: #5b6068; --track: #eeeeea;
  --c1: #0b6bb5; --c2: #c2500a; --c3: #0a7d5a; --c4: #9b4f96;
  --c5: #a97b00; --c6: #3f93c7; --c7: #777d88; --c8: #c0628f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131518; --card: #1b1e22; --edge: #2e3238; --grid: #2a2e34;
    --text: #e8e9eb; --soft: #a3a9b2; --track: #272b31;
    --c1: #5db0f0; --c2: #f2935c; --c3: #4cc79b; --c4: #cf9bd0;
    --c5: #e2b93b; --c6: #8ccdf2; --c7: #8d95a1; --c8: #f0a8c8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 1160px; margin: 0 auto; padding: 32px 16px 48px; }
h1 {
  margin: 0; font-size: 28px; line-height: 1.2; letter-spacing: -.01em; overflow-wrap: anywhere;
}
h2 { margin: 40px 0 12px; font-size: 18px; }
h3 { margin: 0; font-size: 15px; }
section > h3 { margin-top: 24px; }
h2 + h3 { margin-top: 0; }
p { margin: 0; }
.kind, figcaption p, .hint, footer { color: var(--soft); font-size: 13px; }
.lead { margin-top: 8px; max-width: 46em; }
.hint { margin-bottom: 12px; max-width: 60em; }
.tiles, .grid { display: grid; gap: 12px; }
.tiles {
  margin: 24px 0 0;
  grid-template-columns: repeat(auto-fill, minmax(min(240px, calc(50% - 6px)), 1fr));
}
.grid { grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); }
.card, .tiles div {
  margin: 0; padding: 14px 16px; min-width: 0;
  background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
}
.wide { grid-column: 1 / -1; }
.tiles dt { color: var(--soft); font-size: 13px; }
.tiles dd { margin: 2px 0 0; font-size: 21px; line-height: 1.25; }
.tiles dd small { display: block; color: var(--soft); font-size: 13px; }
.plot { margin-top: 10px; }
.steps .plot { padding-left: 46px; }
svg { display: block; overflow: visible; }
svg text { fill: var(--soft); font-size: 12px; }
svg text.name { fill: var(--text); font-size: 13px; }
svg text.none { font-size: 14px; }
.grid line.grid { stroke: var(--grid); }
.track { fill: var(--track); }
.mark { stroke: var(--text); stroke-width: 2; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.faint { opacity: .45; }
.band { opacity: .22; }
.hover rect { fill: transparent; }
.hover rect:hover { fill: var(--text); fill-opacity: .07; }
.l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); } .l3 { stroke: var(--c3); }
.l4 { stroke: var(--c4); } .l5 { stroke: var(--c5); } .l6 { stroke: var(--c6); }
.l7 { stroke: var(--c7); } .l8 { stroke: var(--c8); }
.f1 { fill: var(--c1); background: var(--c1); } .f2 { fill: var(--c2); background: var(--c2); }
.f3 { fill: var(--c3); background: var(--c3); } .f4 { fill: var(--c4); background: var(--c4); }
.f5 { fill: var(--c5); background: var(--c5); } .f6 { fill: var(--c6); background: var(--c6); }
.f7 { fill: var(--c7); background: var(--c7); } .f8 { fill: var(--c8); background: var(--c8); }
.key {
  display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 6px 0 0; padding: 0; list-style: none;
}
.key, .bins { font-size: 13px; color: var(--soft); }
.key i { display: inline-block; width: 10px; height: 10px; margin-right: 6px; border-radius: 3px; }
.key b { color: var(--text); font-weight: 600; }
details { margin-top: 8px; font-size: 13px; }
summary { color: var(--soft); cursor: pointer; }
.scroll { max-height: 320px; margin-top: 6px; overflow: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13px; }
th, td {
  padding: 3px 12px 3px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid);
}
th { color: var(--soft); font-weight: 500; }
.facts td { overflow-wrap: anywhere; }
.facts th { width: 42%; }
.answer { display: grid; gap: 8px; align-content: start; }
.answer h4 { margin: 4px 0 0; color: var(--soft); font-size: 13px; font-weight: 500; }
.answer b { color: var(--text); }
pre {
  margin: 0; padding: 8px 10px; max-height: 15em; overflow: auto;
  background: var(--track); border-radius: 6px; border-left: 3px solid var(--c7);
  font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
}
pre.up { border-left-color: var(--c1); }
pre.down { border-left-color: var(--c2); }
footer { margin-top: 40px; }
:focus-visible { outline: 2px solid var(--c1); outline-offset: 2px; }
@media (max-width: 480px) { .tiles dd { font-size: 18px; } h1 { font-size: 24px; } }
@media print { .card { break-inside: avoid; } details { display: none; } }
)css";

}  // namespace rl
