"use strict";
// Brings the parts of the page that are marked data-live up to date, every two seconds while somebody looks.
(() => {
  const every = 2000;
  const $ = (id) => document.getElementById(id);
  document.documentElement.classList.add("script");

  const pause = $("pause");
  const lost = $("lost");
  let paused = false;
  let timer;
  let latest = 0;

  // Replacing a part must not take the focus, nor a selection, from whoever is using it.
  function swap(now, next) {
    if (!now || now.innerHTML === next.innerHTML && now.className === next.className) return;
    const selection = getSelection();
    if (!selection.isCollapsed && now.contains(selection.anchorNode)) return;
    const focused = now.contains(document.activeElement) ? document.activeElement.id : "";
    for (const open of now.querySelectorAll("details[open]")) next.querySelector("#" + open.id)?.setAttribute("open", "");
    now.className = next.className;
    now.replaceChildren(...next.childNodes);
    if (focused) $(focused)?.focus({ preventScroll: true });
  }

  async function refresh() {
    clearTimeout(timer);
    const mine = ++latest; // what is under way is not shown any more, nor followed by another
    if (paused) return;
    if (!document.hidden) {
      let page;
      try {
        const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(5000) });
        if (answer.ok) page = new DOMParser().parseFromString(await answer.text(), "text/html");
      } catch { /* nobody answers */ }
      if (mine !== latest) return;
      for (const next of page?.querySelectorAll("[data-live]") ?? []) swap($(next.id), next);
      lost.hidden = Boolean(page);
    }
    timer = setTimeout(refresh, every);
  }

  if (pause) {
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", paused);
      refresh();
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
    timer = setTimeout(refresh, every);
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch { // not allowed on an address without TLS: select it, so that Ctrl+C does
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return false;
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const label = button.textContent;
    const done = await copy(button.previousElementSibling);
    button.textContent = done ? "Copied" : "Selected";
    $("copied").textContent = done ? "The command is on the clipboard." : "The command is selected.";
    setTimeout(() => { button.textContent = label; }, 2000);
  });
})();
