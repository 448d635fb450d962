// A browser starts no worker for a page that lies on a disk, and the theme's search is one:
// there its script runs in a hidden frame, which is given what a worker has.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source === inside) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      this.#ready = new Promise((resolve) => (this.#frame.onload = resolve));
      inside.document.open();
      inside.document.write(
        "<script>postMessage = (data) => parent.postMessage(data, '*')</" + "script>" +
          `<script src="${url}"></` + "script>",
      );
      inside.document.close();
    }

    postMessage(data) {
      this.#ready.then(() => {
        this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
  };
}
