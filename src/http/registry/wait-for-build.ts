import type { IncomingMessage, ServerResponse } from 'node:http';
import { StillBuilding } from '../../pull/index.ts';
import { apiVersionHeader } from './registry-headers.ts';

// Go's clients follow ten redirects.
const mostRedirects = 9;

/**
 * Returns what is found when the build of the image has finished. While the build goes on, redirects the client to itself, which
 * restarts its timeout: undefined.
 */
export async function waitForBuild<T>(
  find: () => Promise<T>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<T | undefined> {
  try {
    return await find();
  } catch (error) {
    const url = new URL(req.url ?? '', 'http://localhost');
    const turn = Number(url.searchParams.get('wait') ?? 0);
    if (!(error instanceof StillBuilding) || !(turn < mostRedirects)) throw error;
    url.searchParams.set('wait', String(turn + 1));
    res.writeHead(307, {
      location: `${url.pathname}${url.search}`,
      'content-length': '0',
      ...apiVersionHeader,
    });
    res.end();
    return undefined;
  }
}
