import { spawn } from 'node:child_process';
import {
  type Command,
  jsonOption,
  print,
  serverOption,
  serverVariables,
  UsageError,
} from './command/command.ts';
import { serverAddress } from './server-client.ts';

/** `sluice open`: shows a page of the server in the browser. */
export const openCommand: Command = {
  summary: 'Open a page of the server in the browser, and print its address',
  usage: ['', 'BUILD-ID', 'IMAGE'],
  options: { server: serverOption, json: jsonOption },
  variables: serverVariables,

  async run(values, args) {
    if (args.length > 1) throw new UsageError(`Expected one argument, got ${args.length}`);
    const server = serverAddress(values);
    if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
      throw new UsageError(
        `The address of the server '${server}' is not a URL: write http://HOST:PORT or https://HOST`,
      );
    }
    const url = new URL(pathOf(args[0]), server).href;
    print(values, { url }, url);
    // A script wants the address only.
    if (process.stdout.isTTY && !values.json) openBrowser(url);
    return 0;
  },
};

/** Returns the path of the first page, of a build, or of an image. */
function pathOf(what: string | undefined): string {
  if (what === undefined) return '/';
  if (/^(?:bd-)?[0-9a-f]{32}(?:[_-]\d+)?$/.test(what)) return `/view/builds/${what}`;
  return `/view/inspect?${new URLSearchParams({ image: what })}`;
}

/** Opens the desktop's browser, and does not wait for it. Without one, the printed address has to do. */
function openBrowser(url: string): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const browser = spawn(program, [url], { stdio: 'ignore', detached: true });
  browser.once('error', () => console.error(`Cannot start ${program}: open the address yourself`));
  browser.unref();
}
