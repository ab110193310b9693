// Starts what the page has elements for.
import { startList } from "./list.js";
import { startTurn } from "./turn.js";
import { localTimes } from "./dom.js";

localTimes(document);
startList();
startTurn();
document.documentElement.dataset.ready = "true";
