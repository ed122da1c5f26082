/** The routes of hosted repositories over parts that note what they are asked: rights come first. No server. */
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Fault } from '../../src/foundation/fault.ts';
import {
  type HostedDeps,
  sendCatalog,
  sendHosted,
} from '../../src/http/registry/hosted/hosted-routes.ts';
import { type RequestState, stateOf } from '../../src/http/request-state.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

const repository = 'team/app';
const manifest = documentOf(Buffer.from('{"schemaVersion":2}'), mediaTypes.ociManifest);
const blob = Buffer.from('the bytes of a blob');
const digest = digestOf(blob);
const fault = (kind: ConstructorParameters<typeof Fault>[0]) =>
  new Fault(kind, 'it says no', { phase: 'upstream' });

interface Given {
  readonly rights?: readonly string[];
  /** The failure of the admission. */
  readonly refusal?: Error;
  /** The failures of the first requests for a manifest. */
  readonly failures?: Error[];
  readonly awaitBuild?: (name: string) => Promise<boolean>;
  readonly size?: number;
  readonly hasLinks?: boolean;
  readonly filtered?: string;
}

/** The parts of a site. Each call is noted in one list. */
function siteOf(given: Given = {}) {
  const calls: unknown[][] = [];
  const noted =
    (name: string, result?: unknown) =>
    async (...args: readonly unknown[]) => {
      const plain = args.filter(arg => typeof arg !== 'function');
      calls.push([name, ...plain.map(arg => (arg instanceof AbortSignal ? 'signal' : arg))]);
      return result;
    };
  const { rights = ['pull'], failures = [], size = blob.length } = given;
  const admitted = () => rights;
  const listing = {
    ...{ contentType: 'application/json', body: { tags: [] }, next: 'last=b' },
    ...(given.filtered === undefined ? {} : { filtered: given.filtered }),
  };
  const parts = {
    auth: {
      async admit(_request: unknown, ...wanted: unknown[]) {
        calls.push(['admit', ...wanted]);
        if (given.refusal) throw given.refusal;
        return admitted;
      },
      admitList: noted('admitList', admitted),
    },
    recordAudit: (_request: unknown, ...entry: unknown[]) => void calls.push(['audit', ...entry]),
    content: { hasLinks: given.hasLinks ?? false },
    manifests: {
      async get(...args: unknown[]) {
        calls.push(['get', ...args]);
        const failure = failures.shift();
        if (failure) throw failure;
        return manifest;
      },
      async put(name: string, { signal, bytes, ...push }: Record<string, unknown>) {
        calls.push(['put', name, String(bytes), push, signal instanceof AbortSignal]);
        return { digest: manifest.digest, subject: given.filtered };
      },
      remove: noted('remove manifest'),
    },
    blobs: {
      size: noted('size', size),
      remove: noted('remove blob'),
      mount: noted('mount', true),
    },
    listings: {
      tags: noted('tags', listing),
      referrers: noted('referrers', listing),
      catalog: noted('catalog', listing),
    },
    uploads: {
      state: noted('state', { id: 'id', size: 0 }),
      start: noted('start', { id: 'id', size: 0 }),
    },
    countPull: (pull: unknown) => void calls.push(['count', pull]),
    notePull: (_request: unknown, image: unknown) => void calls.push(['note', image]),
    noteBlob: (...args: unknown[]) => void calls.push(['noteBlob', ...args]),
    awaitBuild: given.awaitBuild ?? (async () => false),
    trustedProxies: 0,
    async keptBlob(_content: unknown, ...args: unknown[]) {
      calls.push(['open', ...args.slice(0, 2)]);
      return { kind: 'redirect', location: new URL('https://store.example.com/blob') };
    },
    host: 'images.example.com',
  };
  return { calls, deps: parts as unknown as HostedDeps };
}

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly state?: RequestState;
}

/** Sends a request to the routes. Returns the status, the headers and the body of the response. */
async function send(
  deps: HostedDeps,
  method: string,
  target: string,
  { headers = {}, body, state = {} }: Sent = {},
) {
  const req = new IncomingMessage(new Socket());
  Object.assign(req, { method, url: `/v2/${target}` });
  Object.assign(req.headers, headers);
  Object.assign(stateOf(req), state);
  if (body) req.push(body);
  req.push(null);
  const written: Buffer[] = [];
  const socket = new Duplex({
    read() {},
    write(bytes: Buffer, _encoding, done) {
      written.push(bytes);
      done();
    },
  });
  const res = new ServerResponse(req);
  res.assignSocket(socket as Socket);
  const path = target.split('?', 1)[0] ?? '';
  if (path === '_catalog') await sendCatalog(deps, req, res);
  else await sendHosted(deps, path, req, res);
  // The head is written in the next turn.
  await nextTurn();
  const [head = '', ...rest] = Buffer.concat(written).toString().split('\r\n\r\n');
  const lines = head
    .split('\r\n')
    .slice(1)
    .map(line => line.split(': '));
  return {
    status: res.statusCode,
    headers: Object.fromEntries(lines.map(([name = '', value]) => [name.toLowerCase(), value])),
    body: rest.join('\r\n\r\n'),
  };
}

/** Returns the names of the calls. */
const names = (calls: readonly unknown[][]) => calls.map(([name]) => name);

test('each method requires its right, and a caller without it learns and changes nothing', async () => {
  const content = `${repository}/manifests/1`;
  for (const [method, path, action] of [
    ...['GET', 'HEAD'].flatMap(one => [
      ...[
        [one, content, 'pull'],
        [one, `${repository}/blobs/${digest}`, 'pull'],
      ],
      ...[
        [one, `${repository}/tags/list`, 'pull'],
        [one, `${repository}/referrers/${digest}`, 'pull'],
      ],
    ]),
    ...[
      ['PUT', content, 'push'],
      ['DELETE', content, 'delete'],
    ],
    ['DELETE', `${repository}/blobs/${digest}`, 'delete'],
    ...['POST', 'GET', 'PATCH', 'PUT', 'DELETE'].map(one => [
      ...[one, `${repository}/blobs/uploads/${one === 'POST' ? '' : 'id'}`, 'push'],
    ]),
  ] as [string, string, string][]) {
    const { calls, deps } = siteOf({ refusal: fault('unauthorized') });
    const given = { body: Buffer.from('{}') };
    await assert.rejects(send(deps, method, path, given), { kind: 'unauthorized' }, method);
    assert.deepEqual(calls, [['admit', repository, action, undefined]], `${method} ${path}`);
  }
});

test('a method that a route does not have is refused, with those that it has', async () => {
  for (const [method, path, allowed] of [
    ['POST', 'manifests/1', 'GET, HEAD, PUT, DELETE'],
    ['PUT', `blobs/${digest}`, 'GET, HEAD, DELETE'],
    ['DELETE', 'tags/list', 'GET, HEAD'],
    ['PUT', `referrers/${digest}`, 'GET, HEAD'],
    ['HEAD', 'blobs/uploads/id', 'GET, POST, PATCH, PUT, DELETE'],
  ] as const) {
    const { calls, deps } = siteOf();
    await assert.rejects(send(deps, method, `${repository}/${path}`), error => {
      assert.ok(error instanceof Fault);
      assert.deepEqual([error.status, error.headers.allow], [405, allowed], method);
      return true;
    });
    assert.deepEqual(calls, []);
  }
});

test('a path without a repository, a kind or a valid reference is refused before rights are looked at', async () => {
  for (const [path, kind] of [
    ['manifests/1', 'not-found'],
    [`${repository}/other/1`, 'not-found'],
    [`${repository}/manifests/1/2`, 'not-found'],
    [repository, 'not-found'],
    [`${repository}/tags/other`, 'not-found'],
    ['Team/manifests/1', 'name-invalid'],
    ['../manifests/1', 'name-invalid'],
    ['Team/blobs/uploads/', 'name-invalid'],
    [`${repository}/blobs/1`, 'digest-invalid'],
    [`${repository}/referrers/1`, 'digest-invalid'],
    [`${repository}/manifests/.x`, 'manifest-unknown'],
    [`${repository}/manifests/%zz`, 'manifest-unknown'],
    [`${repository}/blobs/uploads/id/x`, 'not-found'],
  ] as const) {
    const { calls, deps } = siteOf();
    await assert.rejects(send(deps, 'GET', path), { kind, phase: 'request' }, path);
    assert.deepEqual(calls, []);
  }
  const { calls, deps } = siteOf();
  await send(deps, 'GET', `${repository}/manifests/${manifest.digest.replace(':', '%3A')}`);
  assert.deepEqual(calls[1], ['get', repository, manifest.digest]);
});

test('a manifest is sent, counted and noted', async () => {
  for (const [method, reference] of [
    ['GET', '1'],
    ['HEAD', manifest.digest],
  ] as const) {
    const { calls, deps } = siteOf();
    const state = { handedOn: { peer: '192.0.2.1', order: undefined } };
    const path = `${repository}/manifests/${reference}`;
    const { status, headers, body } = await send(deps, method, path, { state });
    assert.deepEqual([status, headers['docker-content-digest']], [200, manifest.digest]);
    assert.equal(body, method === 'HEAD' ? '' : manifest.bytes.toString());
    const sent = { repository, reference, digest: manifest.digest };
    assert.deepEqual(calls.slice(1), [
      ['get', repository, reference],
      ['count', { ...sent, client: '192.0.2.1', isHead: method === 'HEAD' }],
      ['note', { name: repository, reference, digest: manifest.digest }],
    ]);
  }
});

test('a pull of a tag waits for the build that pushes it, and a builder does not', async () => {
  const missing = () => fault('manifest-unknown');
  const tag = `${repository}/manifests/1`;
  const asked: string[] = [];
  const awaitBuild = async (name: string) => {
    asked.push(name);
    return true;
  };
  const built = siteOf({ failures: [missing()], awaitBuild });
  assert.equal((await send(built.deps, 'GET', tag)).status, 200);
  assert.deepEqual(asked.splice(0), [`images.example.com/${repository}:1`]);
  assert.deepEqual(names(built.calls), ['admit', 'get', 'get', 'count', 'note']);
  const unbuilt = siteOf({ failures: [missing()] });
  await assert.rejects(send(unbuilt.deps, 'GET', tag), { kind: 'manifest-unknown' });
  for (const [given, path] of [
    [{ rights: ['pull', 'push'], failures: [missing()] }, tag],
    [{ failures: [missing()] }, `${repository}/manifests/${digest}`],
    [{ failures: [fault('internal')] }, tag],
    [{ failures: [new Error('of no fault')] }, tag],
  ] as const) {
    const { calls, deps } = siteOf({ ...given, failures: [...given.failures], awaitBuild });
    await assert.rejects(send(deps, 'GET', path));
    assert.deepEqual([names(calls), asked], [['admit', 'get'], []]);
  }
});

test('a blob is sent from what is stored for its repository, and its size is asked once', async () => {
  const path = `${repository}/blobs/${digest}`;
  const { calls, deps } = siteOf();
  const { status, headers } = await send(deps, 'GET', path);
  assert.deepEqual([status, headers.location], [307, 'https://store.example.com/blob']);
  assert.deepEqual(calls.slice(1), [
    ...[
      ['size', repository, digest],
      ['open', digest, blob.length],
      ['noteBlob', 'redirected', 0],
    ],
  ]);
  const known = { headers: { 'if-none-match': `"${digest}"` } };
  const looked = siteOf();
  assert.equal((await send(looked.deps, 'GET', path, known)).status, 304);
  assert.deepEqual(names(looked.calls), ['admit', 'size']);
  const empty = siteOf({ size: 0 });
  assert.equal((await send(empty.deps, 'GET', path, known)).status, 304);
  const head = await send(siteOf().deps, 'HEAD', path);
  assert.equal(head.headers['content-length'], String(blob.length));
});

test('a replica that can send the blob gets an order for it', async () => {
  const path = `${repository}/blobs/${digest}`;
  const size = 64 * 1024 * 1024;
  const handedOn = (order: unknown) => ({ state: { handedOn: { peer: '192.0.2.1', order } } });
  const ordered = siteOf({ size });
  await send(ordered.deps, 'GET', path, handedOn({}));
  assert.deepEqual(names(ordered.calls), ['admit', 'size']);
  for (const [given, sent] of [
    [{ size, hasLinks: true }, handedOn({})],
    [{ size }, handedOn(undefined)],
    [{ size }, {}],
  ] as const) {
    const { calls, deps } = siteOf(given);
    assert.equal((await send(deps, 'GET', path, sent)).status, 307);
    assert.deepEqual(names(calls), ['admit', 'size', 'open', 'noteBlob']);
  }
});

test('lists lead to their next page, and say how they are filtered', async () => {
  for (const [path, call] of [
    [`${repository}/tags/list`, ['tags', repository]],
    [`${repository}/referrers/${digest}`, ['referrers', repository, digest]],
  ] as const) {
    const { calls, deps } = siteOf({ filtered: 'artifactType' });
    const { status, headers, body } = await send(deps, 'GET', `${path}?n=2`);
    assert.deepEqual([status, body], [200, '{"tags":[]}']);
    assert.equal(headers.link, `</v2/${path}?last=b>; rel="next"`);
    assert.equal(headers['oci-filters-applied'], 'artifactType');
    const [name, ...args] = calls[1] ?? [];
    assert.deepEqual([name, ...args.slice(0, -1)], call);
    assert.equal(String(args.at(-1)), 'n=2');
  }
  const { calls, deps } = siteOf();
  const { body } = await send(deps, 'GET', '_catalog?n=3');
  assert.equal(body, '{"tags":[]}');
  assert.deepEqual(names(calls), ['admitList', 'catalog']);
  assert.equal(String(calls[1]?.[1]), 'n=3');
});

test('a pushed manifest gets its tag, and an entry in the audit log', async () => {
  const { calls, deps } = siteOf();
  const sent = { body: Buffer.from('{}'), headers: { 'content-type': 'type' } };
  const { status, headers } = await send(deps, 'PUT', `${repository}/manifests/1?tag=2`, sent);
  assert.deepEqual(
    [status, headers.location],
    [201, `/v2/${repository}/manifests/${manifest.digest}`],
  );
  assert.deepEqual(
    [headers['docker-content-digest'], headers['content-length']],
    [...[manifest.digest, '0']],
  );
  assert.deepEqual([headers['oci-subject'], headers['oci-tag']], [undefined, undefined]);
  assert.deepEqual(calls.slice(1), [
    ['put', repository, '{}', { contentType: 'type', digest: undefined, tags: ['1'] }, true],
    ['audit', 'manifest.push', `${repository}:1 ${manifest.digest}`],
  ]);
});

test('a manifest that is pushed by its digest is checked against it, and may get tags', async () => {
  const push = async (query: string, given: Given = {}) => {
    const { calls, deps } = siteOf(given);
    const path = `${repository}/manifests/${digest}${query}`;
    const { headers } = await send(deps, 'PUT', path, { body: Buffer.from('{}') });
    return { calls, headers };
  };
  const one = await push('?tag=1&tag=2', { filtered: 'sha256:subject' });
  assert.deepEqual(one.calls.slice(1), [
    ['put', repository, '{}', { contentType: undefined, digest, tags: ['1', '2'] }, true],
    ['audit', 'manifest.push', `${repository}:1,2 ${manifest.digest}`],
  ]);
  assert.equal(one.headers['oci-subject'], 'sha256:subject');
  assert.equal(one.headers['oci-tag'], '2', 'the last of two headers with this name');
  assert.equal((await push('?tag=3')).headers['oci-tag'], '3');
  const none = await push('');
  assert.deepEqual(none.calls.at(-1), [
    'audit',
    'manifest.push',
    `${repository} ${manifest.digest}`,
  ]);
  assert.equal(none.headers['oci-tag'], undefined);
  const many = (count: number) =>
    `?${Array.from({ length: count }, (_, at) => `tag=t${at}`).join('&')}`;
  assert.equal((await push(many(100))).calls.length, 3);
  await assert.rejects(push(many(101)), { kind: 'bad-request', message: /More than 100 tags/ });
  await assert.rejects(push('?tag=1&tag=.x'), {
    kind: 'bad-request',
    message: /'\.x' is not a tag/,
  });
});

test('a manifest of more than 4 MiB is refused', async () => {
  const push = async (bytes: number) => {
    const { calls, deps } = siteOf();
    await send(deps, 'PUT', `${repository}/manifests/1`, { body: Buffer.alloc(bytes, ' ') });
    return calls.length;
  };
  assert.equal(await push(4 * 1024 * 1024), 3);
  await assert.rejects(push(4 * 1024 * 1024 + 1), error => {
    assert.ok(error instanceof Fault);
    assert.deepEqual([error.kind, error.headers.connection], ['too-large', 'close']);
    return true;
  });
});

test('removed content has an entry in the audit log', async () => {
  for (const [path, call, entry] of [
    ['manifests/1', ['remove manifest', repository, '1', 'signal'], ['manifest.delete', '1']],
    [`blobs/${digest}`, ['remove blob', repository, digest, 'signal'], ['blob.delete', digest]],
  ] as const) {
    const { calls, deps } = siteOf();
    const { status, headers } = await send(deps, 'DELETE', `${repository}/${path}`);
    assert.deepEqual([status, headers['content-length']], [202, '0']);
    assert.deepEqual(calls.slice(1), [call, ['audit', entry[0], `${repository} ${entry[1]}`]]);
  }
});

test('an upload belongs to its account, to its user, or to the repository', async () => {
  for (const [who, owner] of [
    [{ account: 'ada', user: 'eve' }, 'ada'],
    [{ user: 'eve' }, 'eve'],
    [undefined, repository],
  ] as const) {
    const { calls, deps } = siteOf();
    const state = who ? { who } : {};
    const { status } = await send(deps, 'POST', `${repository}/blobs/uploads/`, { state });
    assert.equal(status, 202);
    assert.deepEqual(calls[1], ['start', repository, owner, 'sha256']);
  }
  const { calls, deps } = siteOf();
  await send(deps, 'GET', `${repository}/blobs/uploads/id`);
  assert.deepEqual(calls, [
    ['admit', repository, 'push', undefined],
    ['state', repository, 'id'],
  ]);
});

test('the repository from which to mount a blob is part of the challenge', async () => {
  const mount = async (from: string, path = 'blobs/uploads/') => {
    const { calls, deps } = siteOf();
    await send(deps, path === 'blobs/uploads/' ? 'POST' : 'GET', `${repository}/${path}${from}`);
    return calls[0]?.[3];
  };
  assert.equal(await mount(`?mount=${digest}&from=team/base`), 'team/base');
  assert.equal(await mount('?from=Not%20a%20name"'), undefined);
  assert.equal(await mount('?from=team/base', 'manifests/1'), undefined);
});
