import http from 'node:http';
import { CommandError } from '../command/command.ts';

/** The hosts of servers on this machine, which no proxy reaches. */
export const ownMachine = ['localhost', '127.0.0.1', '[::1]'];
let isDone = false;

/**
 * Makes this process honour `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, except for servers on the same machine. Throws
 * {@link CommandError} for an invalid proxy.
 */
export function useProxies(environment: NodeJS.ProcessEnv = process.env): void {
  if (isDone) return;
  isDone = true;
  const variable = (name: string) => environment[name] || environment[name.toLowerCase()];
  const [httpsProxy, httpProxy] = [variable('HTTPS_PROXY'), variable('HTTP_PROXY')];
  if (!httpsProxy && !httpProxy) return;
  if (!('setGlobalProxyFromEnv' in http)) {
    const node = process.versions.node;
    console.error(
      `HTTPS_PROXY and HTTP_PROXY are ignored: they require Node 24, and this is Node ${node}`,
    );
    return;
  }
  const direct = [variable('NO_PROXY') ?? '', ...ownMachine].filter(entry => entry !== '');
  try {
    http.setGlobalProxyFromEnv({
      ...(httpsProxy ? { https_proxy: httpsProxy } : {}),
      ...(httpProxy ? { http_proxy: httpProxy } : {}),
      no_proxy: direct.join(','),
    });
  } catch {
    // Without the message of Node: it shows the variable, which may contain a password.
    throw new CommandError(
      'HTTPS_PROXY or HTTP_PROXY is not the http or https URL of a proxy. Set it to a URL such as http://proxy.example:3128',
      2,
    );
  }
}
