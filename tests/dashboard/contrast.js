// Texts whose contrast to what is behind them is less than WCAG asks for at level AA.
() => {
  const parse = (text) => (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if ((colour[3] ?? 1) > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('svg, .unseen, .skip, script, noscript, option') || !element.checkVisibility()) continue;
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const style = getComputedStyle(element);
    const [one, other] = [light(parse(style.color)), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) found.push(`${element.textContent.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
}
