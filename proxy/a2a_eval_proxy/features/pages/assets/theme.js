// The theme that the reader chose, before anything is painted; main.js adds the button.
if (["light", "dark"].includes(localStorage.theme)) document.documentElement.dataset.theme = localStorage.theme;
