/**
 * A Koa application with one response: `node bench/peers/bare-koa.ts FILE MEDIA_TYPE DIGEST`. It sends the file as
 * Sluice sends a manifest, and so shows the cost of Koa and Node without Sluice. Prints its URL.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Koa from 'koa';

const [file = '', mediaType = '', digest = ''] = process.argv.slice(2);
const bytes = readFileSync(file);
const app = new Koa();
app.use(context => {
  context.set({
    'content-type': mediaType,
    'docker-content-digest': digest,
    'docker-distribution-api-version': 'registry/2.0',
    etag: `"${digest}"`,
  });
  context.body = bytes;
});
const server = createServer(app.callback());
server.listen(0, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
});
