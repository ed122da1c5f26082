import { Fault } from '../../foundation/fault.ts';
import type { createServedBases, ImageFinder } from '../../pull/index.ts';
import type { ContainerRequest } from '../../request/index.ts';
import { createHarborAdapter, createScans, type Scans } from '../../scans/index.ts';
import { configuredScanner } from '../config/read/index.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

/** Returns the scans of images; undefined without a scanner in the settings. */
export function createSiteScans(
  { config, publicUrl, log }: AppDeps,
  { rows }: State,
  { connecting }: RegistryAccess,
  { lend }: Pick<ReturnType<typeof createServedBases>, 'lend'>,
  findImage: ImageFinder,
): Scans | undefined {
  const adapter = configuredScanner(config);
  if (!adapter) return undefined;
  const { timeouts, bounds } = connecting;
  return createScans({
    store: rows.scans,
    scanner: createHarborAdapter(adapter, { connectMs: timeouts.connectMs, limits: bounds }),
    findImage,
    lend,
    origin: publicUrl.origin,
    pageUrlOf: id => new URL(`/view/scans/${id}`, publicUrl).href,
    limits: { ...config.scans, pullWait: config.builds.pullWait },
    log,
  });
}

/** Lets the image of a request pass that requires a scan. Throws a `Fault` for others, also if the scanner was removed since. */
export async function requireScan(
  scans: Scans | undefined,
  request: ContainerRequest,
): Promise<void> {
  if (scans) return scans.admit(request);
  throw new Fault(
    'denied',
    'This image was requested with a security scan, and this server no longer scans images: request it again without scanMode',
    { phase: 'request' },
  );
}
