import { writeFile } from 'node:fs/promises';
import { startDaemon, waitForLine } from './daemon.ts';
import { freePort } from './free-port.ts';
import { makeTempDir } from './temp-dir.ts';

/** A running HTTP proxy. */
export interface Tinyproxy extends AsyncDisposable {
  /** `127.0.0.1:<port>` */
  readonly host: string;
  /** Its requests so far, oldest first: `CONNECT 127.0.0.1:5000`, `GET http://127.0.0.1:5000/v2/`. */
  readonly requests: readonly string[];
  stop(): Promise<void>;
}

/** Who may use it. Default: everybody on this machine. */
export interface ProxyLogin {
  readonly username: string;
  readonly password: string;
}

const attempts = 5;

/** Starts tinyproxy on a free port of 127.0.0.1. */
export async function startTinyproxy(login?: ProxyLogin): Promise<Tinyproxy> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOn(await freePort(), login);
    } catch (error) {
      // Another process used the port first.
      if (attempt === attempts || !String(error).includes('Address already in use')) throw error;
    }
  }
}

async function startOn(port: number, login: ProxyLogin | undefined): Promise<Tinyproxy> {
  const directory = await makeTempDir('tinyproxy');
  const lines = [
    `Port ${port}`,
    'Listen 127.0.0.1',
    'Timeout 60',
    'LogLevel Info',
    ...(login ? [`BasicAuth ${login.username} ${login.password}`] : []),
  ];
  await writeFile(directory.join('tinyproxy.conf'), `${lines.join('\n')}\n`);
  const daemon = startDaemon('tinyproxy', ['-d', '-c', directory.join('tinyproxy.conf')]);
  const requests: string[] = [];
  daemon.onLine(line => {
    const request = /Request \(file descriptor \d+\): (\S+ \S+) HTTP/.exec(line)?.[1];
    if (request !== undefined) requests.push(request);
  });
  const stop = async () => {
    await daemon.stop();
    await directory.remove();
  };
  try {
    await waitForLine(daemon, /Accepting connections/i);
  } catch (error) {
    await stop();
    throw error;
  }
  return { host: `127.0.0.1:${port}`, requests, stop, [Symbol.asyncDispose]: stop };
}
