// Names for what the theme leaves without one, and a way by keyboard into tables that scroll.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("summary").forEach((summary) => {
    if (!summary.textContent.trim()) summary.setAttribute("aria-label", "Pages below");
  });
  document.querySelectorAll("button[aria-label='Search']").forEach((button) => {
    const told = button.textContent.replace(/\s+/g, " ").trim();
    if (told) button.setAttribute("aria-label", told);
  });
  document.querySelectorAll(".sphx-glr-thumbcontainer a").forEach((link) => {
    link.setAttribute("aria-label", link.textContent.trim());
  });
  document.querySelectorAll(".bd-article table").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  });
});
