/** Who is scanned, who waits, and what is refused before a scanner sees it. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { pino } from 'pino';
import { checkScanMode } from '../../src/http/api/container/scan-mode.ts';
import { documentOf } from '../../src/oci/index.ts';
import type { PulledImage } from '../../src/pull/index.ts';
import type { ContainerRequest, Submission } from '../../src/request/index.ts';
import type { BilledImages } from '../../src/scans/billed-image.ts';
import { type ScanPolicy, scanToPass } from '../../src/scans/scan-policy.ts';
import type { Scanner } from '../../src/scans/scanner.ts';
import { createScans } from '../../src/scans/scans.ts';
import type { ScanRow, ScanStore } from '../../src/storage/rows/index.ts';

const indexType = 'application/vnd.oci.image.index.v1+json';
const manifestType = 'application/vnd.oci.image.manifest.v1+json';
const digest = (letter: string) => `sha256:${letter.repeat(64)}`;

function memoryStore(): ScanStore {
  const rows = new Map<string, ScanRow>();
  return {
    async add({ id, image, createdAt }) {
      const begun = { startedAt: null, finishedAt: null, succeeded: null };
      rows.set(id, { id, image, createdAt, ...begun, reason: null, report: null, log: '' });
    },
    find: async id => rows.get(id),
    details: async () => undefined,
    sharedResult: async () => undefined,
    async finish({ sameness: _, details: _packed, detailsOf: _of, ...outcome }) {
      const row = rows.get(outcome.id);
      if (row) rows.set(outcome.id, { ...row, ...outcome });
    },
    purge: async () => {},
  };
}

/** Scans of one image, each of which waits until the test ends it. */
function heldScans(
  index: object,
  maxWaiting: number,
  name = 'Held 1',
  billed?: BilledImages,
  pullWait = 10,
) {
  const held = Promise.withResolvers<void>();
  const scanned: string[] = [];
  const scanner: Scanner = {
    describe: async () => ({ name, database: '' }),
    async scan(image) {
      scanned.push(image.digest);
      await held.promise;
    },
    close: async () => {},
  };
  if (billed) Object.assign(scanner, { scanComponents: async () => {} });
  const root = documentOf(Buffer.from(JSON.stringify(index)), indexType);
  const scans = createScans({
    store: memoryStore(),
    scanner,
    findImage: async () => ({ root }) as PulledImage,
    lend: () => ({ path: 'lent', add() {}, [Symbol.dispose]() {} }),
    billed: billed ?? (async () => async () => undefined),
    origin: 'https://sluice',
    pageUrlOf: id => `https://sluice/view/scans/${id}`,
    limits: { timeout: 5000, concurrent: 2, maxWaiting, maxAge: 1000, pullWait },
    log: pino({ level: 'silent' }),
  });
  let count = 0;
  const begin = async (caller: { readonly user?: string; readonly address: string }) => {
    count += 1;
    const id = `sc-${count}`;
    await scans.begin({
      ...{ caller, createdAt: Date.now(), image: { registry: 'r', repository: 'a' } },
      scan: { id, mode: 'required', levels: [] },
    } as unknown as ContainerRequest);
    return id;
  };
  return { scans, begin, scanned, end: () => held.resolve() };
}

const indexOf = (...entries: readonly object[]) => ({
  ...{ schemaVersion: 2, mediaType: indexType },
  manifests: entries.map(entry => ({ mediaType: manifestType, size: 2, ...entry })),
});
const linux = (architecture: string) => ({ platform: { os: 'linux', architecture } });

suite('the queue of scans', () => {
  test('callers without a login share half of it, whatever addresses they have', async () => {
    const world = heldScans(indexOf({ digest: digest('a'), ...linux('amd64') }), 8);
    const strangers: string[] = [];
    for (let at = 0; at < 6; at += 1) {
      strangers.push(await world.begin({ address: `192.0.2.${at}` }));
    }
    const users = [await world.begin({ user: 'one', address: '' })];
    for (const user of ['one', 'one', 'two']) users.push(await world.begin({ user, address: '' }));
    const states = await Promise.all(
      [...strangers, ...users].map(async id => (await world.scans.get(id)).reason?.slice(0, 14)),
    );
    const full = 'Too many scans';
    const waits = undefined;
    assert.deepEqual(states, [
      ...[waits, waits, waits, waits, full, full],
      // A user has a quarter.
      ...[waits, waits, full, waits],
    ]);
    world.end();
    await world.scans.close();
  });

  const brief = { timeout: 30_000 };
  test('who cannot wait for a scan learns that it runs', brief, async () => {
    const index = indexOf({ digest: digest('a'), ...linux('amd64') });
    const world = heldScans(index, 8, 'Held 1', undefined, 60_000);
    const id = await world.begin({ user: 'one', address: '' });
    await assert.rejects(world.scans.admit({ id, mode: 'required', levels: [] }, 0), {
      kind: 'unavailable',
    });
    world.end();
    await world.scans.admit({ id, mode: 'required', levels: [] });
    await world.scans.close();
  });

  test('an index in an index is refused: scanners read one image of it, and clients another', async () => {
    const nested = { digest: digest('b'), mediaType: indexType };
    const world = heldScans(indexOf({ digest: digest('a'), ...linux('amd64') }, nested), 8);
    world.end();
    const id = await world.begin({ user: 'one', address: '' });
    while ((await world.scans.get(id)).finishedAt === null) await new Promise(setImmediate);
    assert.match((await world.scans.get(id)).reason ?? '', /an index in its index/);
    assert.deepEqual(world.scanned, []);
    await world.scans.close();
  });

  test('an image whose bill of materials cannot be used is read as a whole', async () => {
    const broken = async () => {
      throw new Error('the bill is damaged');
    };
    for (const billed of [broken, async () => broken]) {
      const index = indexOf({ digest: digest('a'), ...linux('amd64') });
      const world = heldScans(index, 8, 'Held 1', billed);
      world.end();
      const id = await world.begin({ user: 'one', address: '' });
      while ((await world.scans.get(id)).finishedAt === null) await new Promise(setImmediate);
      const { succeeded, log } = await world.scans.get(id);
      assert.equal(succeeded, true, log);
      assert.match(log, /Reads the whole image/);
      assert.deepEqual(world.scanned, [digest('a')]);
      await world.scans.close();
    }
  });

  test('does not hold back frozen images and copies, which it reads, and reads no Singularity images', () => {
    const policy: ScanPolicy = { required: 'off', levels: [] };
    const served = { scans: {}, scanPolicy: policy, freezesAll: false };
    const freezing = { ...served, freezesAll: true };
    const [required, async] = [{ scanMode: 'required' }, { scanMode: 'async' }] as const;
    assert.equal(checkScanMode(required, served, undefined).submission.scanMode, 'required');
    const copies = [{ freeze: true }, { mirror: true }].map(one => [served, one] as const);
    for (const [rules, copied] of [...copies, [freezing, {}] as const]) {
      const refused = () => checkScanMode({ ...copied, ...required }, rules, undefined);
      assert.throws(refused, /not held back\. With 'async' they are scanned/);
      const { submission, warnings } = checkScanMode({ ...copied, ...async }, rules, undefined);
      assert.deepEqual([submission.scanMode, warnings], ['async', []]);
    }
    const sif = { freeze: true, format: 'sif' } as const;
    assert.throws(
      () => checkScanMode({ ...sif, ...required }, served, undefined),
      /no Singularity/,
    );
    const { submission, warnings } = checkScanMode({ ...sif, ...async }, served, undefined);
    assert.equal(submission.scanMode, undefined);
    assert.deepEqual(warnings, ["'scanMode' is ignored: scanners read no Singularity images"]);
  });

  test('no request goes round a scan that the operator requires', () => {
    const policy: ScanPolicy = { required: 'anonymous', levels: ['LOW', 'MEDIUM'] };
    const rules = { scans: {}, scanPolicy: policy, freezesAll: false };
    const wish = (submission: Submission, user?: string) => checkScanMode(submission, rules, user);
    for (const scanMode of ['none', 'async', undefined] as const) {
      const { submission, warnings } = wish({ scanMode });
      assert.equal(submission.scanMode, 'required');
      assert.deepEqual(submission.scanLevels, ['LOW', 'MEDIUM']);
      assert.match(warnings.join(), /requires a security scan.*accepted: LOW, MEDIUM/);
    }
    const own = wish({ scanMode: 'required', scanLevels: ['HIGH', 'LOW'] });
    assert.deepEqual(own.submission.scanLevels, ['LOW']);
    assert.match(own.warnings.join(), /accepted: LOW\)/);
    assert.deepEqual(wish({ scanMode: 'required', scanLevels: ['LOW'] }).warnings, []);
    for (const copied of [{ freeze: true }, { mirror: true }]) {
      assert.throws(() => wish(copied), /callers without a login.*or log in/);
      assert.deepEqual(wish(copied, 'one').warnings, []);
    }
    assert.equal(wish({ scanMode: 'none' }, 'one').submission.scanMode, 'none');
  });

  test('names from before the operator required a scan are refused, and those with a scan are judged by it', () => {
    const caller = { address: '' };
    const off: ScanPolicy = { required: 'off', levels: [] };
    const all: ScanPolicy = { required: 'all', levels: ['LOW'] };
    assert.equal(scanToPass(off, { caller, scan: undefined }), undefined);
    assert.throws(() => scanToPass(all, { caller, scan: undefined }), /request it again/);
    const scan = { id: 'sc-1', mode: 'async', levels: [] } as const;
    assert.equal(scanToPass(off, { caller, scan }), undefined);
    const required = { id: 'sc-2', mode: 'required', levels: ['HIGH', 'LOW'] } as const;
    assert.equal(scanToPass(off, { caller, scan: required }), required);
    const { levels } = scanToPass(all, { caller, scan: { ...required, levels: ['HIGH'] } }) ?? {};
    assert.deepEqual(levels, []);
    assert.deepEqual(scanToPass(all, { caller, scan }), {
      ...scan,
      ...{ mode: 'required', levels: ['LOW'] },
    });
  });

  test('the log has no line that a scanner made up', async () => {
    const index = indexOf({ digest: digest('a'), ...linux('amd64\nScans nothing\u001b[2J') });
    const world = heldScans(index, 8, 'Held\nThe scan is finished\u001b[2J');
    world.end();
    const id = await world.begin({ user: 'one', address: '' });
    while ((await world.scans.get(id)).finishedAt === null) await new Promise(setImmediate);
    const { log } = await world.scans.get(id);
    assert.equal(log.split('\n').length, 5, log);
    assert.ok(!log.includes('\u001b'));
    await world.scans.close();
  });
});
