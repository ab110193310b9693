// Starts what the page has elements for.
import { startFragments } from "./fragments.js";
import { startList } from "./list.js";
import { startTurn } from "./turn.js";
import { localTimes } from "./dom.js";
import { startWork } from "./work.js";

localTimes(document);
startList();
startTurn();
startFragments();
startWork();
document.documentElement.dataset.ready = "true";
