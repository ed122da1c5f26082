/** Which settings an address of an index has, which addresses are refused, and what failures say. No server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../../src/foundation/fault.ts';
import {
  createIndexAccess,
  IndexFault,
  type IndexSettings,
  readBody,
  settingsAbove,
  subjectOf,
  withFiles,
} from '../../../src/pypi/indexes/index-access.ts';
import type { HttpRequest, Transport, UpstreamResponse } from '../../../src/upstream/index.ts';
import { checkAddress } from '../../../src/upstream/transport/address-guard.ts';

const settings = (url: string, more: Partial<IndexSettings> = {}): IndexSettings => ({
  ...{ keys: [], url, mirrors: [], allowPrivateAddress: false, ...more },
});
const signal = new AbortController().signal;
const home = 'https://pypi.example';

/** A transport that answers with a status or an error, and notes the requests. */
function transportOf(answer: number | Error, requests: HttpRequest[]): Transport {
  const sendBlob = async (request: HttpRequest) => {
    requests.push(request);
    if (answer instanceof Error) throw answer;
    const body = { read: async () => null, destroy() {} };
    return { status: answer, headers: new Map(), contentLength: 0, body } as UpstreamResponse;
  };
  return { sendBlob } as unknown as Transport;
}

function accessOf(indexes: readonly IndexSettings[], answer: number | Error = 200) {
  const [free, guarded]: HttpRequest[][] = [[], []];
  const access = createIndexAccess({
    indexes,
    transport: transportOf(answer, free as HttpRequest[]),
    guarded: transportOf(answer, guarded as HttpRequest[]),
    retry: { attempts: 1, firstDelayMs: 1, longestDelayMs: 1 },
  });
  return { access, free, guarded };
}

test('the files beside the pages of an index have its settings, and nothing else of its host has', () => {
  for (const [url, files] of [
    [`${home}/simple`, [`${home}/packages`, `${home}/files`]],
    [`${home}/team/simple`, [`${home}/team`]],
    [`${home}/root/pypi/+simple`, [`${home}/root/pypi`]],
    [`${home}/+simple`, [`${home}/packages`, `${home}/files`]],
    [`${home}/team`, []],
    [`${home}/simple/team`, []],
    [`${home}/my-simple`, []],
    [`${home}/simple/simple`, [`${home}/simple`]],
  ] as const) {
    const [index, ...others] = withFiles([
      settings(url, { keys: ['team'], mirrors: ['https://m'] }),
    ]);
    assert.deepEqual([index?.url, index?.keys, index?.mirrors], [url, ['team'], ['https://m']]);
    assert.deepEqual(
      others,
      files.map(file => settings(file)),
    );
  }
});

test('files that several indexes may have belong to none of them', () => {
  const two = [settings(`${home}/simple`), settings(`${home}/+simple`)];
  assert.deepEqual(withFiles(two), two);
  const apart = [settings(`${home}/a/simple`), settings(`${home}/b/simple`)];
  assert.deepEqual(
    withFiles(apart).map(({ url }) => url),
    ['/a/simple', '/b/simple', '/a', '/b'].map(path => home + path),
  );
});

test('an address has the settings of the longest base above it', () => {
  const [short, long] = [settings(`${home}/a`), settings(`${home}/x`, { keys: [`${home}/a/b`] })];
  for (const indexes of [
    [short, long],
    [long, short],
  ]) {
    const found = (path: string) => settingsAbove(indexes, home + path);
    assert.deepEqual(found('/a/b/c'), { settings: long, base: `${home}/a/b`, rest: '/c' });
    assert.deepEqual(found('/a/c'), { settings: short, base: `${home}/a`, rest: '/c' });
    for (const path of ['/a', '/ab/c', '/', '/other']) assert.equal(found(path), undefined);
    assert.equal(settingsAbove(indexes, `https://evil.example/${home}/a/b`), undefined);
  }
  const { access } = accessOf([short]);
  assert.equal(access.settingsOf(`${home}/a/x`), short);
  assert.equal(access.settingsOf(`${home}/b/x`), undefined);
});

test('an address that may lead out of its folder is refused, and not asked for', async () => {
  const index = settings(`${home}/team/simple`);
  const refused = [
    ...['/team/%2e%2e%2fx', '/team/..%2Fx', '/team/%2E%2E%2Fx', '/team/..;/x', '/team/..%5cx'],
    ...['/team/x/..%3bp/y', '/team/x%2f..', '/team/%zz/..%2fx', '/team/..;x', '/..%2f'],
  ];
  for (const path of refused) {
    const { access, free, guarded } = accessOf([index]);
    await assert.rejects(access.open(home + path, { signal }), {
      ...{ kind: 'bad-request', phase: 'upstream' },
      message: /^The address of a file at pypi\.example leads out of its folder/,
    });
    assert.deepEqual([free, guarded], [[], []], path);
  }
  const admitted = [
    '/team/a%20b',
    '/team/a;b',
    '/team/..a%20',
    '/team/a..%2fb',
    '/team/a..;b',
    '/team/%zz',
  ];
  for (const path of admitted) {
    const { access, guarded } = accessOf([index]);
    assert.equal((await access.open(home + path, { signal })).status, 200);
    assert.equal(guarded?.length, 1, path);
  }
});

test('only a listed index may be at a private address', async () => {
  for (const [allowPrivateAddress, places] of [
    [true, [1, 0]],
    [false, [0, 1]],
  ] as const) {
    const index = settings(`${home}/team/simple`, { allowPrivateAddress });
    for (const path of ['/team/simple/x', '/team/x']) {
      const { access, free, guarded } = accessOf([index]);
      await access.open(home + path, { signal });
      assert.deepEqual([free?.length, guarded?.length], places);
    }
    const { access, free } = accessOf([index]);
    await access.open(`${home}/other/x`, { signal });
    assert.deepEqual(free, []);
  }
});

test('a failure names the index, its status and what to do', async () => {
  for (const [status, kind, remedy] of [
    [401, 'bad-request', 'the operator can give it credentials with pypi in the configuration'],
    [403, 'bad-request', 'the operator can give it credentials with pypi in the configuration'],
    [404, 'bad-request', 'check the name of the package'],
    [400, 'bad-request', 'try later'],
    [499, 'bad-request', 'try later'],
    [399, 'upstream-unusable', 'try later'],
    [500, 'upstream-unusable', 'try later'],
  ] as const) {
    const { access } = accessOf([], status);
    await assert.rejects(access.open(`${home}/simple/x`, { signal }), error => {
      assert.ok(error instanceof IndexFault);
      const { message } = error;
      assert.deepEqual([error.kind, error.phase, error.responseStatus], [kind, 'upstream', status]);
      assert.equal(message, `${subjectOf(home)} answered ${status} for /simple/x: ${remedy}`);
      return true;
    });
  }
});

/** The error of a connection to a private address. */
function closedAddress(): Error {
  try {
    checkAddress(new URL('https://10.0.0.1'), () => false);
  } catch (error) {
    return error as Error;
  }
  return assert.fail('the address is private');
}

test('an index that does not answer, and a closed address, are described in words about indexes', async () => {
  const reset = Object.assign(new Error('reset'), { code: 'ECONNREFUSED' });
  const { access } = accessOf([], reset);
  await assert.rejects(access.open(`${home}/simple/x`, { signal }), error => {
    assert.ok(error instanceof IndexFault);
    assert.deepEqual([error.responseStatus, error.kind], [undefined, 'upstream-unusable']);
    assert.match(error.message, /^The index of Python packages https:\/\/pypi\.example/);
    return true;
  });
  const closed = accessOf([], closedAddress());
  await assert.rejects(closed.access.open(`${home}/simple/x`, { signal }), error => {
    assert.ok(error instanceof Fault && !(error instanceof IndexFault));
    assert.equal(error.kind, 'bad-request');
    assert.match(error.message, /^The index .* allow it with pypi and allowPrivateAddress/);
    return true;
  });
  const stopped = new AbortController();
  stopped.abort(new Error('gone'));
  for (const failure of [reset, new Fault('upstream', 'of a proxy', { phase: 'upstream' })]) {
    const left = accessOf([], failure).access.open(`${home}/x`, { signal: stopped.signal });
    await assert.rejects(left, error => error === failure);
  }
});

test('a body that breaks off is a failure of its index, and a longer one is not', async () => {
  const read = (error: unknown, abort = false) => {
    const body = {
      destroy() {},
      read: async () => {
        if (error) throw error;
        return { bytes: Buffer.from('12345'), release() {} };
      },
    };
    const given = abort ? AbortSignal.abort() : signal;
    const what = 'The page of x';
    return readBody({ body } as Pick<UpstreamResponse, 'body'>, {
      ...{ maxBytes: 4, what, url: `${home}/simple/x`, signal: given },
    });
  };
  const broken = new Error('broken');
  await assert.rejects(read(broken), error => {
    assert.ok(error instanceof IndexFault && error.cause === broken);
    assert.match(error.message, /^The index of Python packages at pypi\.example .*The page of x/);
    return true;
  });
  await assert.rejects(read(broken, true), broken);
  await assert.rejects(read(undefined), error => !(error instanceof IndexFault));
});
