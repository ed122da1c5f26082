/** What a browser loads for the first view of a page. */
import assert from 'node:assert/strict';
import { gunzipSync } from 'node:zlib';
import { call } from '../faults/http-client.ts';

const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
const headers = { accept, 'accept-encoding': 'gzip' };

export interface FirstView {
  readonly status: number;
  readonly html: string;
  /** Addresses of its scripts, with those that they import, and its style sheet. */
  readonly files: readonly string[];
  /** Bytes on the wire: the page and its files. */
  readonly bytes: number;
}

/** Loads a page and its files as a browser does. Fails if a file is missing. */
export async function loadFirstView(
  server: string,
  path: string,
  more: Readonly<Record<string, string>> = {},
): Promise<FirstView> {
  const page = await call(server + path, { headers: { ...headers, ...more } });
  const isPacked = page.headers['content-encoding'] === 'gzip';
  const html = (isPacked ? gunzipSync(page.body) : page.body).toString();
  const files = [...html.matchAll(/<(?:script|link)[^>]*? (?:src|href)="(\/[^"]+)"/g)].map(
    ([, file = '']) => file,
  );
  let bytes = page.body.length;
  // A script may import others, which are added while the list is read.
  for (const file of files) {
    const reply = await call(server + file, { headers });
    assert.equal(reply.status, 200, file);
    assert.match(
      String(reply.headers['content-type']),
      /^(?:text\/(?:css|javascript)|image\/svg)/,
      file,
    );
    const text = gunzipSync(reply.body).toString();
    assert.ok(text.length > 0, file);
    for (const [, name = ''] of text.matchAll(/^import [^;]*?'\.\/([\w-]+\.js)';$/gm)) {
      const imported = file.replace(/[^/]+$/, name);
      if (!files.includes(imported)) files.push(imported);
    }
    bytes += reply.body.length;
  }
  return { status: page.status, html, files, bytes };
}
