// Before the page is drawn: the selected theme, or the system's if none was selected.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const data = document.documentElement.dataset;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; /* it may be forbidden */ } };
  const apply = (chosen) => {
    data.choice = chosen === "light" || chosen === "dark" ? chosen : "system";
    data.theme = data.choice === "system" ? (system.matches ? "dark" : "light") : data.choice;
    dispatchEvent(new Event("theme"));
  };
  system.addEventListener("change", () => apply(data.choice));
  addEventListener("choose-theme", ({ detail: chosen }) => {
    try {
      if (chosen === "system") localStorage.removeItem("theme");
      else localStorage.setItem("theme", chosen);
    } catch { /* it may be forbidden */ }
    apply(chosen);
  });
  apply(stored());
}
