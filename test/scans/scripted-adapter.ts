import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { manifestAccept } from '../../src/oci/media-type.ts';

/** What an adapter is asked to scan. */
export interface ScanOrder {
  readonly registry: { readonly url: string; readonly authorization: string };
  readonly artifact: { readonly repository: string; readonly digest: string };
}

/** A vulnerability in the form of the adapter API. */
export interface Found {
  readonly id: string;
  readonly severity: string;
  readonly [member: string]: unknown;
}

/** A scanner adapter (Harbor, Pluggable Scanner API 1.1) that reads the image as a scanner does, and reports what the test says. */
export interface ScriptedAdapter extends AsyncDisposable {
  readonly url: string;
  readonly orders: readonly ScanOrder[];
  /** Digests of blobs that it has read. */
  readonly read: readonly string[];
  found: readonly Found[];
  database: string;
  /** Answers in place of the report. */
  report: ((response: ServerResponse, order: ScanOrder) => void) | undefined;
  /** Reports are not ready while it holds. */
  isHeld: boolean;
}

export async function startAdapter(): Promise<ScriptedAdapter> {
  const orders: ScanOrder[] = [];
  const read: string[] = [];
  const send = (response: ServerResponse, status: number, value: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  const pull = async ({ registry, artifact: { repository, digest } }: ScanOrder) => {
    const base = `${registry.url}/v2/${repository}`;
    const manifest = await fetch(`${base}/manifests/${digest}`, {
      headers: { accept: manifestAccept },
    });
    if (manifest.status !== 200) throw new Error(`${manifest.status} ${await manifest.text()}`);
    const { config, layers } = (await manifest.json()) as {
      config: { digest: string };
      layers: { digest: string }[];
    };
    for (const part of [config, ...layers]) {
      const blob = await fetch(`${base}/blobs/${part.digest}`);
      if (blob.status !== 200) throw new Error(`${blob.status} for ${part.digest}`);
      await blob.arrayBuffer();
      read.push(part.digest);
    }
  };
  const adapter = {
    ...{ orders, read, found: [] as readonly Found[], database: '2026-11-01', isHeld: false },
    report: undefined as ScriptedAdapter['report'],
  };
  const server = createServer(async (request, response) => {
    const path = request.url ?? '';
    if (path.endsWith('/metadata')) {
      const properties = {
        'harbor.scanner-adapter/vulnerability-database-updated-at': adapter.database,
      };
      send(response, 200, { scanner: { name: 'Scripted', version: '1.0' }, properties });
      return;
    }
    if (request.method === 'POST') {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      orders.push(JSON.parse(Buffer.concat(chunks).toString()));
      send(response, 202, { id: String(orders.length - 1) });
      return;
    }
    const [, at] = /scan\/(\d+)\/report$/.exec(path) ?? [];
    const order = orders[Number(at)];
    if (!order) return void send(response, 404, {});
    if (adapter.isHeld) {
      response.writeHead(302, { location: path, 'refresh-after': '0' }).end();
      return;
    }
    try {
      if (adapter.report) return adapter.report(response, order);
      await pull(order);
      const { digest } = order.artifact;
      send(response, 200, { artifact: { digest }, vulnerabilities: adapter.found });
    } catch (error) {
      send(response, 500, { error: String(error) });
    }
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(adapter, {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  });
}
