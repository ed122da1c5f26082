import { join } from 'node:path';
import { createDescribedLayers } from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Documents } from '../../images/index.ts';
import type { ImageFinder, LentImages } from '../../pull/index.ts';
import type { ContainerRequest } from '../../request/index.ts';
import {
  createBilledImages,
  createHarborAdapter,
  createScannerProgram,
  createScans,
  type Scanner,
  type ScanPolicy,
  type Scans,
  scanToPass,
} from '../../scans/index.ts';
import { configuredScanner, scanFolder } from '../config/read/index.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

/** Returns the scans of images; undefined without a scanner in the settings. */
export function createSiteScans(
  { config, publicUrl, log }: AppDeps,
  { rows, space }: State,
  { connecting: { timeouts, bounds } }: RegistryAccess,
  { lend }: Pick<LentImages, 'lend'>,
  findImage: ImageFinder,
  documents: Documents,
): Scans | undefined {
  const configured = configuredScanner(config);
  if (!configured) return undefined;
  const createScanner = (): Scanner => {
    if ('adapter' in configured) {
      const limits = { connectMs: timeouts.connectMs, limits: bounds };
      return createHarborAdapter(configured.adapter, limits);
    }
    return createScannerProgram(configured.program, {
      folder: join(scanFolder(config), 'runs'),
      timeoutMs: config.scans.timeout,
      async requireSpace() {
        await space.look();
        space.take(0);
      },
      proxies: ownProxies(),
    });
  };
  return createScans({
    store: rows.scans,
    scanner: createScanner(),
    findImage,
    lend,
    billed: createBilledImages({
      documents,
      billOf: rows.builds.solution,
      describe: createDescribedLayers(rows.packageLayers.paths, log),
    }),
    origin: publicUrl.origin,
    pageUrlOf: id => new URL(`/view/scans/${id}`, publicUrl).href,
    limits: { ...config.scans, pullWait: config.builds.pullWait },
    log,
  });
}

/** Returns the variables of this process with the proxies for other hosts. */
function ownProxies(): Readonly<Record<string, string>> {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'];
  return Object.fromEntries(names.map(name => [name, process.env[name] ?? '']));
}

/**
 * Lets the image of a request pass that must pass no scan, or has passed it. Throws a `Fault` for others, also if the scanner was removed
 * since.
 */
export async function requireScan(
  scans: Scans | undefined,
  policy: ScanPolicy,
  request: ContainerRequest,
  patienceMs?: number,
): Promise<void> {
  const wanted = scanToPass(policy, request);
  if (!wanted) return;
  if (scans) return scans.admit(wanted, patienceMs);
  throw new Fault(
    'denied',
    'This image was requested with a security scan, and this server no longer scans images: request it again without scanMode',
    { phase: 'request' },
  );
}
