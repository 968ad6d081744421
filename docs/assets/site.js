// The theme's two side bars have no names, by which a screen reader could tell one from the other.
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
// What is wider than its place scrolls, and is scrolled by keys, too.
for (const region of document.querySelectorAll("pre, .table-wrapper")) {
  if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
}
// The empty corner of a table heads nothing.
for (const corner of document.querySelectorAll("th")) {
  if (!corner.textContent.trim()) corner.replaceWith(document.createElement("td"));
}
