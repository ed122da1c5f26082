import assert from 'node:assert/strict';
import type { Sluice } from '../world/sluice.ts';

/** Returns the text of a page or file, as a browser gets it. Fails when the status is not 200. */
export async function pageText(
  sluice: Sluice,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  const response = await sluice.fetch(path, { headers: { accept: 'text/html', ...headers } });
  assert.equal(response.status, 200, path);
  return response.text();
}
