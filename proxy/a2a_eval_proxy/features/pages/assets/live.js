// Follows /api/events while the page is visible, and asks for fragments as seldom as it can.

// The least time between two fetches, by the number of events meanwhile.
const restAfter = (news) => (news > 1000 ? 2000 : news > 50 ? 1000 : news > 5 ? 500 : 80);
const LAST_MS = 1500; // after the last event: figures are a second old

// Calls `refresh` at once after a quiet time, then as seldom as `restAfter` says, one at a time; and a last time.
// After a long one it rests `share` times as long.
export class Refresher {
  constructor(refresh, share = 3) {
    this.refresh = refresh;
    this.share = share;
    this.news = 0;
    this.running = false;
    this.notBefore = 0;
    this.timer = 0;
    this.failures = 0;
  }

  ask(news = 1) {
    this.news += news;
    if (this.running || this.timer) return;
    const wait = this.notBefore - performance.now();
    if (wait <= 0) this.run();
    else this.timer = setTimeout(() => this.run(), wait);
  }

  async run() {
    const news = this.news;
    this.timer = this.news = 0;
    this.running = true;
    const began = performance.now();
    try {
      await this.refresh();
      this.failures = 0;
    } catch {
      this.news += 1; // the connection is lost, or the turn is just being stored
      this.notBefore = performance.now() + Math.min(5000, 100 * 2 ** this.failures);
      this.failures += 1;
    }
    this.running = false;
    const now = performance.now();
    this.notBefore = Math.max(this.notBefore, now + Math.max(restAfter(news), this.share * (now - began)));
    clearTimeout(this.last);
    if (news) this.last = setTimeout(() => this.timer || this.running || this.run(), LAST_MS);
    if (this.news) this.ask(0);
  }
}

// The only type of events with view=count.
export const COUNTS = ["changes"];

// Events of `url` while the page is visible and not paused. `opened` is called whenever some may have been missed.
export class Events {
  constructor(url, types, { opened, received, changed = () => {} }) {
    Object.assign(this, { url, types, opened, received, changed, paused: false });
    document.addEventListener("visibilitychange", () => this.update());
    this.update();
  }

  pause(paused) {
    this.paused = paused;
    this.update();
  }

  close() {
    this.paused = true;
    this.update();
  }

  update() {
    const wanted = !this.paused && document.visibilityState === "visible";
    if (wanted && !this.source) this.connect();
    if (!wanted && this.source) {
      this.source.close();
      this.source = null;
    }
    this.changed(this.state());
  }

  state() {
    if (this.paused) return "paused";
    return this.source && this.source.readyState === EventSource.OPEN ? "live" : "lost";
  }

  connect() {
    const source = new EventSource(this.url);
    this.source = source;
    source.addEventListener("open", () => {
      this.changed(this.state());
      this.opened();
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED && this.source === source) {
        this.source = null; // an error status: EventSource does not try again, the server may
        setTimeout(() => this.update(), 3000);
      }
      this.changed(this.state());
    });
    source.addEventListener("reset", () => this.opened());
    for (const type of this.types) source.addEventListener(type, (event) => this.received(type, event.data));
  }
}
