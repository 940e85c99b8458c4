// Before the page is drawn: the selected theme, or the system's if none was selected.
{
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let selected = null;
  try { selected = localStorage.getItem("theme"); } catch { /* storage may be forbidden */ }
  document.documentElement.dataset.theme = selected ?? (dark ? "dark" : "light");
}
