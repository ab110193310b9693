// Starts what the page has elements for.
import { startFragments } from "./fragments.js";
import { startList } from "./list.js";
import { startTheme } from "./theme_button.js";
import { startTurn } from "./turn.js";
import { localTimes } from "./dom.js";
import { startWork } from "./work.js";

startTheme();
localTimes(document);
startList();
startTurn();
startFragments();
startWork();
document.documentElement.dataset.ready = "true";
