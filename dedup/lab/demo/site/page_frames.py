"""The empty page of each look, as HTML with slots in braces; `shells` fills them.

Rule: a look shares no header, menu, footer or class name with another. The herald is the paper
itself, plain is its print version, harbour and valley are partners who publish its stories again.
"""

from dedup.lab.demo.site.words import words

__all__ = ["FRAMES", "HEAD", "SCRIPT", "SITES", "style"]

SITES = {
    "herald": "The Lantern Herald",
    "plain": "The Lantern Herald",
    "harbour": "Harbour Wire",
    "valley": "Valley Courier",
}

HEAD = """\
<!DOCTYPE html>
<html lang="{language}" dir="{direction}">
<head>
<meta charset="utf-8">
<title>{title} | {site}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{summary}">
{canonical}<style>
{style}</style>
<script type="application/ld+json">{data}</script>
<script>{script}</script>
</head>
"""

FRAMES = {
    "herald": """\
<body class="lh-page">
<!-- built in {milliseconds} ms for request {request} -->
<a class="lh-skip" hidden>{home}</a>
<header class="lh-masthead">
<p class="lh-logo">{site}</p>
<p class="lh-clock">{clock}</p>
<form class="lh-search" action="/" method="get"><label>{search} <input name="q"></label></form>
</header>
<nav class="lh-menu"><ul>
{nav}</ul></nav>
<div class="lh-banner"><b>{advertisement}</b> {banner}</div>
<div class="lh-columns">
<main class="lh-main">
<nav class="lh-trail" aria-label="breadcrumb"><span>{home}</span> / <span>{place}</span></nav>
{content}
{after}</main>
<aside class="lh-side">
{side}<section class="lh-popular"><h3>{popular_title}</h3><ol>
{popular}</ol></section>
<div class="lh-promo"><b>{advertisement}</b> {promotion}</div>
</aside>
</div>
<section class="comments lh-comments">
<h3>{comments_title}</h3>
{comments}<form action="/" method="post">
<input type="hidden" name="session_token" value="{token}">
<p><label>{name} <input name="name"></label></p>
<p><textarea name="text" rows="4" cols="60"></textarea></p>
<p><button type="submit">{send}</button></p>
</form>
</section>
<footer class="lh-footer">
{footer}<p class="lh-small">{site}, {clock}</p>
</footer>
<div class="lh-notice" style="display:none"><p>{notice}</p><button>OK</button></div>
</body>
</html>
""",
    "plain": """\
<body class="pl-sheet">
<!-- printed for request {request} -->
<header class="pl-head"><b>{site}</b> <i>{clock}</i></header>
<div class="pl-ad"><b>{advertisement}</b> {banner}</div>
<div class="pl-ad"><b>{advertisement}</b> {promotion}</div>
<main class="pl-body">
{content}
</main>
<aside class="pl-rest">
<h3>{popular_title}</h3><ol>
{popular}</ol>
{after}{side}</aside>
<form class="pl-form" action="/" method="post">
<input type="hidden" name="session_token" value="{token}">
<button type="submit">{send}</button>
</form>
<nav class="pl-menu"><ul>
{nav}</ul></nav>
<footer class="pl-foot">{footer}</footer>
</body>
</html>
""",
    "harbour": """\
<body id="hw">
<!-- node 7, {milliseconds} ms -->
<div id="hw-bar" role="banner"><div class="hw-name">{site}</div><div class="hw-time">{clock}</div>
<div class="hw-claim">Dispatches from forty quays, unloaded day and night since the ferry ran.</div>
</div>
<div class="hw-left" role="navigation">
<p>On deck this hour</p>
<ul class="hw-deck">
{nav}</ul>
<p>Weather at the pier: {weather}</p>
</div>
<div class="hw-center">
<article class="hw-dispatch">
<div class="hw-flag">{banner}</div>
{content}
</article>
{after}<div class="hw-replies replies">
<h4>From the quay</h4>
{comments}</div>
</div>
<div class="hw-right" role="complementary">
<p>{promotion}</p>
{side}<ol>
{popular}</ol>
<form action="/" method="post"><input type="hidden" name="csrf" value="{token}">
<input name="mail"><button>Send me the morning bulletin</button></form>
</div>
<div class="hw-keel" role="contentinfo">
<p>Harbour Wire buys reports from papers along the coast and sells them to papers inland.</p>
<p>Pilots, chandlers and lock keepers read us free of charge. Tide tables: pier four.</p>
</div>
</body>
</html>
""",
    "valley": """\
<body class="vc">
<div class="vc-roof"><h2>{site}</h2><small>{clock}</small></div>
<table class="vc-grid"><tr>
<td class="vc-list"><ul>
{nav}</ul></td>
<td class="vc-middle">
<main class="vc-column">
<p class="vc-kicker">From our friends in town</p>
{content}
{after}</main>
</td>
<td class="vc-ads"><aside><p>{banner}</p><p>{promotion}</p>
{side}<ol>
{popular}</ol></aside></td>
</tr></table>
<form class="vc-subscribe" action="/" method="post">
<input type="hidden" name="visit" value="{token}">
<label>Your farm <input name="farm"></label> <input type="submit" value="Subscribe">
</form>
<footer class="vc-floor"><p>The courier comes on Wednesdays and Saturdays,
when the pass is open.</p>
<p>Milk prices, hay exchange and lost dogs: see the notice board behind the church.</p></footer>
</body>
</html>
""",
}

SCRIPT = """
(function () {
  "use strict";
  var queue = [], started = Date.now(), request = "REQUEST";
  function note(kind, detail) {
    queue.push({ kind: kind, detail: detail, after: Date.now() - started, request: request });
    if (queue.length > 20) { send(); }
  }
  function send() {
    if (!navigator.sendBeacon || queue.length === 0) { return; }
    navigator.sendBeacon("/beacon", JSON.stringify(queue));
    queue = [];
  }
  function banner(place, words) {
    var box = document.createElement("div");
    box.innerHTML = "<p class='ad'>" + words.join(" ") + " <b>only today<\\/b><\\/p>";
    place.appendChild(box);
    note("banner", words.length);
  }
  function depth() {
    var page = document.documentElement;
    return Math.round(100 * (page.scrollTop + page.clientHeight) / page.scrollHeight);
  }
  document.addEventListener("scroll", function () { note("scroll", depth()); }, { passive: true });
  document.addEventListener("visibilitychange", function () {
    if (document.visibilityState === "hidden") { send(); }
  });
  window.addEventListener("load", function () {
    var empty = document.querySelectorAll("[data-banner]");
    for (var i = 0; i < empty.length; i += 1) { banner(empty[i], ["nothing", "to", "sell"]); }
    if (1 < 2 && empty.length > 2) { note("banners", empty.length); }
  });
}());
"""

_PREFIXES = {"herald": "lh", "plain": "pl", "harbour": "hw", "valley": "vc"}
_CLASSES = words("""
    page masthead logo clock search menu banner columns main trail side popular promo footer small
    notice sheet head ad body rest form foot left deck center dispatch flag right keel roof grid
    list middle column kicker ads subscribe floor title byline meta figure teaser tools""")


def style(look: str) -> str:
    """Return the style sheet of a look, about 4 KB."""
    prefix = _PREFIXES[look]
    rules = [f"body{{margin:0;font:16px/1.5 Georgia,serif;color:#222;counter-reset:{prefix}}}"]
    for number, name in enumerate(_CLASSES):
        rules.append(
            f".{prefix}-{name}{{margin:{number % 7}px auto;padding:{number % 5}px 1em;"
            f"max-width:{40 + number}em;border-top:{number % 3}px solid #{number:02x}aa77}}"
        )
        rules.append(f".{prefix}-{name}>a:hover{{color:#c3{number:02x}11;text-decoration:none}}")
    rules.append("@media(max-width:40em){aside,nav{display:block;width:auto;float:none}}")
    return "\n".join(rules) + "\n"
