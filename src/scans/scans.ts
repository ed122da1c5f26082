import { setTimeout as sleep } from 'node:timers/promises';

import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { Semaphore } from '../foundation/semaphore.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import type { Logger } from '../foundation/telemetry/index.ts';
import { terminalLine } from '../foundation/text.ts';
import { isIndexType, parseManifest } from '../oci/index.ts';
import {
  type ImageFinder,
  type LentImage,
  type PulledImage,
  StillBuilding,
} from '../pull/index.ts';
import type { ContainerRequest, WantedScan } from '../request/index.ts';
import type { ScanRow, ScanStore } from '../storage/rows/index.ts';
import type { BilledImages } from './billed-image.ts';
import { writeSarif } from './documents/write-sarif.ts';
import { writeSpdx } from './documents/write-spdx.ts';
import { chooseFindings, countAll, type FindingsPage, type FindingsQuery } from './findings.ts';
import type { FoundInImage } from './found-in-image.ts';
import { packDetails, packReport, unpackDetails, unpackReport } from './scan-details.ts';
import { createScanReferrers, mostPlatforms, type ScanReferrers } from './scan-referrers.ts';
import { outside, reportOf, type ScanReport } from './scan-report.ts';
import type { Scanner } from './scanner.ts';

/** A scan, as far as it has come. */
export interface Scan extends Omit<ScanRow, 'report'> {
  readonly report: ScanReport | undefined;
}

export interface Scans {
  /** Starts the scan that a request asks for. It runs on its own, after the build of the image. */
  begin(request: ContainerRequest): Promise<void>;
  /** Returns a scan. Throws a `Fault` for an unknown id. */
  get(id: string): Promise<Scan>;
  /** Returns a page of the vulnerabilities that a scan found; of the most severe ones where there is no room for all. */
  findings(scan: Scan, query: FindingsQuery): Promise<FindingsPage>;
  /** Returns the vulnerabilities that a finished scan found, as SARIF. Throws a `Fault` where there are none to list. */
  sarif(id: string): Promise<string>;
  /** Returns the bill of materials of an image, as SPDX. Throws a `Fault` where the scanner did not list the packages. */
  spdx(id: string): Promise<string>;
  /** The same documents, as referrers of the scanned image. */
  readonly referrers: ScanReferrers;
  /**
   * Lets an image pass that must pass a scan, and waits a while for that scan. Throws {@link StillBuilding} while it
   * runs, and another `Fault` for an image that must not be pulled.
   *
   * @param patienceMs how long it waits. Default: as long as pulls wait
   */
  admit(wanted: WantedScan, patienceMs?: number): Promise<void>;
  /** Returns why an image must not be pulled; undefined for one that may. */
  refusalOf(scan: Scan, levels: readonly string[]): string | undefined;
  /** Address of the page of a scan. */
  pageUrlOf(id: string): string;
  purge(before: number, signal?: AbortSignal): Promise<void>;
  /** Ends the running scans. */
  close(): Promise<void>;
}

export interface ScansDeps {
  readonly store: ScanStore;
  readonly scanner: Scanner;
  /** Finds an image without waiting for its scan. */
  readonly findImage: ImageFinder;
  /** Offers an image to the scanner, under a token of its own, until it is disposed of. */
  readonly lend: (request: ContainerRequest, image: PulledImage) => LentImage;
  readonly billed: BilledImages;
  /** Origin of this server, as the scanner reaches it. */
  readonly origin: string;
  readonly pageUrlOf: (id: string) => string;
  readonly limits: ScanLimits;
  readonly log: Logger;
}

export interface ScanLimits {
  /** Timeout for the scan of one image, with all its platforms (ms). */
  readonly timeout: number;
  readonly concurrent: number;
  /** Scans that run or wait. */
  readonly maxWaiting: number;
  /** How long a result is used for other requests of the same image (ms). */
  readonly maxAge: number;
  /** How long a pull waits before it is redirected to itself (ms). */
  readonly pullWait: number;
}

interface Packed {
  /** See {@link packDetails}. */
  readonly details: Buffer;
}

interface RunningScan {
  readonly key: string;
  /** True for a caller without a login. */
  readonly isAnonymous: boolean;
  readonly work: Promise<void>;
}

interface Verdict {
  readonly scan: Scan;
}

/** What one caller may have of all scans that run or wait. */
const callerShare = 0.25;
/** What all callers without a login may have together: they may have many addresses. */
const anonymousShare = 0.5;
const keptVerdicts = 1000;
const lostReason = 'The server stopped during the scan: request the image again';

/** Scans of the images of container requests. They run on the server that leads, and end with it. */
export function createScans(deps: ScansDeps): Scans {
  const { store, scanner, findImage, lend, billed, origin, pageUrlOf, limits, log } = deps;
  const running = new Map<string, RunningScan>();
  const verdicts = boundedCache<string, Verdict>(keptVerdicts);
  const permits = new Semaphore({ limit: limits.concurrent });
  const flights = new SingleFlight<ScanReport & Packed>({ sharesFailure: false });
  // A document of 20,000 packages has 8 MB.
  const writing = new Semaphore({ limit: 2, mostWaiting: 50, refusal: tooManyDocuments });
  const closing = new AbortController();

  const waitForImage = async (request: ContainerRequest): Promise<PulledImage> => {
    for (;;) {
      closing.signal.throwIfAborted();
      try {
        return await findImage(request);
      } catch (error) {
        if (!(error instanceof StillBuilding)) throw error;
        // Builds may be set to wait for no time.
        await sleep(500, undefined, { signal: closing.signal });
      }
    }
  };

  /** Does work that asks the scanner, within its time. */
  const inTime = async <T>(outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>) => {
    const timeout = AbortSignal.timeout(limits.timeout);
    try {
      return await work(AbortSignal.any([outer, timeout]));
    } catch (error) {
      if (!timeout.aborted || outer.aborted) throw error;
      const seconds = Math.round(limits.timeout / 1000);
      throw new Fault('upstream-timeout', `The scan did not finish within ${seconds} s`, {
        phase: 'upstream',
      });
    }
  };

  /** Scans each platform of an image, which the scanner reads from this server. */
  const scanParts = async (
    request: ContainerRequest,
    image: PulledImage,
    scannerName: string,
    signal: AbortSignal,
    note: (line: string) => void,
  ): Promise<ScanReport & Packed> => {
    using lent = lend(request, image);
    const found: FoundInImage = { vulnerabilities: new Map(), packages: undefined };
    const place = { registry: origin, repository: lent.path };
    const { scanComponents } = scanner;
    /** The bill saves work: without it, the scanner reads the whole image. */
    const unlessFailed = async <T>(work: Promise<T>): Promise<T | undefined> => {
      try {
        return await work;
      } catch (err) {
        signal.throwIfAborted();
        log.warn({ err, scan: request.scan?.id }, 'a scan cannot use the bill of materials');
        note('Reads the whole image: its bill of materials cannot be used');
        return undefined;
      }
    };
    const readInPart = scanComponents && (await unlessFailed(billed(request)));
    let scanned: ScanReport['scanned'] = 'layers';
    for (const { platform, ...part } of partsOf(image)) {
      note(`Scans ${part.digest}${platform === undefined ? '' : ` for ${platform}`}`);
      const inPart = readInPart && (await unlessFailed(readInPart(image, part)));
      if (!inPart || !scanComponents) {
        await scanner.scan({ ...place, ...part }, found, signal);
        continue;
      }
      const { manifest, config, components, layers, allLayers } = inPart;
      note(`Reads ${layers} of ${allLayers} layers, and the bill of materials of the packages`);
      lent.add(config);
      lent.add(manifest);
      const read = { ...place, mediaType: part.mediaType, digest: manifest.digest };
      // A finding in a file has its layer, so it comes last.
      await scanComponents(components, found, signal);
      await scanner.scan(read, found, signal);
      scanned = 'bill';
    }
    const details = await packDetails(found);
    return { ...reportOf(scannerName, found), scanned, details };
  };

  const scan = async (request: ContainerRequest, note: (line: string) => void) => {
    const { registry, repository } = request.image;
    const image = await waitForImage(request);
    const name = `${registry}/${repository}@${image.root.digest}`;
    const startedAt = Date.now();
    const { signal } = closing;
    const { name: scannerName, database } = await inTime(signal, scanner.describe);
    note(`Image ${name}`);
    note(`Scanner ${scannerName}${database === '' ? '' : `, database of ${database}`}`);
    const about = { image: name, startedAt };
    const sameness = JSON.stringify([name, scannerName, database]);
    const known = await store.sharedResult(sameness, startedAt - limits.maxAge, startedAt);
    if (known !== undefined) {
      note('The result of an earlier scan is used');
      // It keeps its age: a scan that used it is not shared again.
      return { ...about, sameness: undefined, report: null, detailsOf: known.id };
    }
    // The time of a scan begins with its turn.
    const work = (shared: AbortSignal) =>
      permits.run(
        () => inTime(shared, part => scanParts(request, image, scannerName, part, note)),
        { key: keyOf(request), signal: shared },
      );
    const { details, ...report } = await flights.run(work, { key: sameness, signal });
    return { ...about, sameness, report: await packReport(report), details };
  };

  const run = async (id: string, request: ContainerRequest): Promise<void> => {
    const { registry, repository } = request.image;
    const lines: string[] = [];
    // Names come from scanners and registries.
    const note = (line: string) => void lines.push(terminalLine(line));
    const outcome = await scan(request, note).then(
      done => ({ ...done, succeeded: true, reason: null }),
      error => {
        if (!(error instanceof Fault) && !closing.signal.aborted) {
          log.error({ err: error, scan: id }, 'a scan failed');
        }
        const reason = closing.signal.aborted
          ? lostReason
          : error instanceof Fault
            ? error.message
            : 'The server could not scan the image: its log says why';
        const image = `${registry}/${repository}`;
        const startedAt = null;
        return { image, startedAt, sameness: undefined, succeeded: false, reason, report: null };
      },
    );
    note(outcome.reason ?? 'The scan is finished');
    const ended = { id, finishedAt: Date.now(), log: `${lines.join('\n')}\n` };
    await store.finish({ ...outcome, ...ended });
  };

  /** Returns a scan, and whether it can still change. */
  const look = async (id: string): Promise<{ readonly scan: Scan; readonly isFinal: boolean }> => {
    // Asked first: it may end while its row is read.
    const isRunning = running.has(id);
    const row = await store.find(id);
    if (!row) throw unknown(id);
    const scan = await scanOf(row);
    if (row.finishedAt !== null) return { scan, isFinal: true };
    if (isRunning) return { scan, isFinal: false };
    // Without its work, it never ends.
    const lost = { finishedAt: row.createdAt, succeeded: false, reason: lostReason };
    return { scan: { ...scan, ...lost }, isFinal: false };
  };
  const get = async (id: string): Promise<Scan> => (await look(id)).scan;

  /** Returns a scan without its list of vulnerabilities: those of many scans would take much memory. */
  const verdictOf = async (id: string): Promise<Scan> => {
    const known = verdicts.get(id);
    if (known) return known.scan;
    const { scan, isFinal } = await look(id);
    const { report } = scan;
    const short = { ...scan, log: '', report: report && { ...report, vulnerabilities: [] } };
    if (isFinal) verdicts.set(id, { scan: short });
    return short;
  };

  /** Returns a finished scan with all that it found. Throws a `Fault` for others. */
  const documented = async (id: string) => {
    const { image, finishedAt, report, reason } = await get(id);
    if (finishedAt === null) throw notFound('The scan has not finished: try again in a while');
    if (!report) throw notFound(`The scan found nothing: ${reason ?? 'request the image again'}`);
    const packed = await store.details(id);
    if (packed === undefined) {
      throw notFound('The findings of this scan are no longer kept: request the image again');
    }
    const { scanner } = report;
    const scan = { image, finishedAt, report, scanner, address: `${pageUrlOf(id)}/spdx` };
    return { scan, details: await unpackDetails(packed) };
  };

  const sarif = (id: string) =>
    writing.run(async () => {
      const { scan, details } = await documented(id);
      return writeSarif(scan, scan.report, details.vulnerabilities);
    });

  const spdx = (id: string) =>
    writing.run(async () => {
      const { scan, details } = await documented(id);
      if (details.packages) return writeSpdx(scan, details.packages);
      throw notFound(
        scan.report.packages === undefined
          ? `${scan.scanner} does not list the packages of images: a bill of materials requires Trivy or Grype as a program (scans.program)`
          : `The image has ${scan.report.packages} packages, which are too many for a bill of materials`,
      );
    });

  return {
    async begin(request) {
      const { scan: wanted, image } = request;
      if (!wanted) return;
      const { id } = wanted;
      const createdAt = request.createdAt;
      const name = `${image.registry}/${image.repository}`;
      await store.add({ id, image: name, createdAt });
      const key = keyOf(request);
      const isAnonymous = request.caller.user === undefined;
      const others = [...running.values()];
      const own = others.filter(other => other.key === key).length;
      const most = Math.ceil(limits.maxWaiting * callerShare);
      const anonymous = others.filter(other => other.isAnonymous).length;
      const isFull =
        others.length >= limits.maxWaiting ||
        own >= most ||
        (isAnonymous && anonymous >= Math.ceil(limits.maxWaiting * anonymousShare));
      if (isFull || closing.signal.aborted) {
        const reason = `Too many scans run or wait (at most ${limits.maxWaiting}, and ${most} of one caller): request the image again in a while`;
        await store.finish({
          id,
          image: name,
          startedAt: null,
          finishedAt: Date.now(),
          succeeded: false,
          sameness: undefined,
          reason,
          report: null,
          log: `${reason}\n`,
        });
        return;
      }
      const work = run(id, request)
        .catch(err => log.error({ err, scan: id }, 'the end of a scan was not stored'))
        .finally(() => running.delete(id));
      running.set(id, { key, isAnonymous, work });
    },

    get,

    async admit(wanted, patienceMs = limits.pullWait) {
      const job = running.get(wanted.id);
      if (job) {
        const ended = new AbortController();
        const late = sleep(patienceMs, undefined, { signal: ended.signal, ref: false });
        await Promise.race([job.work, late]);
        ended.abort();
        late.catch(() => {});
      }
      const scan = await verdictOf(wanted.id);
      const page = pageUrlOf(wanted.id);
      if (scan.finishedAt === null) {
        throw new StillBuilding(
          `The security scan of this image has not finished: pull it again in a while (scan: ${page})`,
        );
      }
      const refusal = refusalOf(scan, wanted.levels);
      if (refusal === undefined) return;
      throw new Fault('denied', `${refusal} (scan: ${page})`, { phase: 'request' });
    },

    async findings({ id, report }, query) {
      const listed = report?.vulnerabilities ?? [];
      if (!report || countAll(report.counts) === listed.length)
        return chooseFindings(listed, query);
      return writing.run(async () => {
        const packed = await store.details(id);
        if (packed === undefined) return chooseFindings(listed, query);
        return chooseFindings((await unpackDetails(packed)).vulnerabilities, query);
      });
    },

    sarif,
    spdx,
    referrers: createScanReferrers({ get, sarif, spdx }),
    refusalOf,
    pageUrlOf,
    purge: store.purge,

    async close() {
      closing.abort();
      await Promise.allSettled(running.values().map(({ work }) => work));
      await scanner.close();
    },
  };
}

/** Returns whose scan it is, for the turns and the share of callers. */
function keyOf({ caller }: ContainerRequest): string {
  return caller.user ?? caller.network ?? caller.address;
}

/** Returns the images of an image, one for each platform. */
function partsOf({ root }: PulledImage) {
  const manifest = parseManifest(root);
  if (manifest.kind !== 'index') {
    return [{ digest: root.digest, mediaType: root.mediaType, platform: undefined }];
  }
  // Attestations are listed for an unknown system.
  const parts = manifest.manifests.filter(({ platform }) => platform?.os !== 'unknown');
  if (parts.length === 0 || parts.length > mostPlatforms) {
    throw new Fault(
      'bad-request',
      `The image has ${parts.length} platforms, and a scan reads 1 to ${mostPlatforms}: request it for one platform (containerPlatform)`,
      { phase: 'request' },
    );
  }
  if (parts.some(({ mediaType }) => isIndexType(mediaType))) {
    throw new Fault(
      'bad-request',
      'The image has an index in its index, of which a scanner would read one image: request it for one platform (containerPlatform)',
      { phase: 'request' },
    );
  }
  return parts.map(({ digest, mediaType, platform }) => ({
    digest,
    mediaType,
    platform: platform ? `${platform.os}/${platform.architecture}` : undefined,
  }));
}

/** See {@link Scans.refusalOf}. */
export function refusalOf(
  { succeeded, reason, report }: Scan,
  levels: readonly string[],
): string | undefined {
  if (!succeeded || !report) {
    return `Container security scan did not complete successfully: ${reason ?? 'request the image again'}`;
  }
  const found = outside(report, levels);
  if (found.length === 0) return undefined;
  return `Container security scan operation found one or more vulnerabilities with severity: ${found.join(',')}`;
}

/** Returns a scan that has ended; undefined for others. */
export async function readEndedScan(
  store: Pick<ScanStore, 'find'>,
  id: string,
): Promise<Scan | undefined> {
  const row = await store.find(id);
  return row && row.finishedAt !== null ? scanOf(row) : undefined;
}

async function scanOf({ report, ...row }: ScanRow): Promise<Scan> {
  return { ...row, report: report === null ? undefined : await unpackReport(report) };
}

function unknown(id: string): Fault {
  return notFound(
    `${id.slice(0, 80)} is not the id of a scan, or the scan was deleted: request the image again`,
  );
}

function notFound(what: string): Fault {
  return new Fault('not-found', what, { phase: 'request' });
}

function tooManyDocuments(): Fault {
  return new Fault('unavailable', 'Many documents are being written: try again in a moment', {
    phase: 'request',
  });
}
