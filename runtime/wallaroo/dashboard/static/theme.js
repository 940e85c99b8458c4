// Before the page is drawn: the theme that was chosen, else the system's.
{
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage may be forbidden */ }
  document.documentElement.dataset.theme = chosen ?? (dark ? "dark" : "light");
}
