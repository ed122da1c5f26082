/** Follows a build by its events. */

const againMs = 3000;

/**
 * Calls a listener with the data of each event until the build has ended. A tab that nobody sees gives its connection
 * back: browsers open six to a server, and would load no further page.
 * @param {string} build
 * @param {Readonly<Record<string, (data: any) => void>>} listeners by the name of the event; `end` is the last one
 */
export function follow(build, listeners) {
  /** @type {EventSource | undefined} */
  let events;
  let isOver = false;

  const close = () => {
    events?.close();
    events = undefined;
  };

  const open = () => {
    if (events || isOver || document.hidden) return;
    const own = new EventSource(`/view/builds/${build}/events`);
    events = own;
    for (const [name, listener] of Object.entries(listeners)) {
      own.addEventListener(name, event => {
        if (name === 'end') {
          isOver = true;
          close();
        }
        listener(JSON.parse(/** @type {MessageEvent} */ (event).data));
      });
    }
    own.addEventListener('error', () => {
      // After a failure that is a response, such as too many connections, a browser does not connect again itself.
      if (own.readyState !== EventSource.CLOSED || events !== own) return;
      close();
      setTimeout(open, againMs);
    });
  };

  document.addEventListener('visibilitychange', () => {
    if (document.hidden) close();
    else open();
  });
  open();
}
