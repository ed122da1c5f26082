import { createHash } from 'node:crypto';
import type { AnyOrder, InstallOrder, UnpackLimits } from '../../conda/index.ts';
import type { WheelFile } from '../wheel-file.ts';
import type { InstalledWheel } from '../wheels/install-wheel.ts';
import type { WheelPlace } from '../wheels/open-wheel.ts';

/**
 * Version of everything that the bytes of a layer depend on, beside the wheel and its place: how a wheel is installed, the
 * tar entries, the compression. Increase it with each change of the bytes.
 */
const layerVersion = 1;

/** What the layer of a wheel is made of. */
export interface WheelSubject {
  readonly package: WheelFile;
  readonly place: WheelPlace;
}

/** Installs a wheel and packs its files. */
export interface WheelOrder extends InstallOrder {
  readonly kind: 'wheel';
  readonly subject: WheelSubject;
  readonly limits: UnpackLimits;
}

/** What threads that make layers of wheels are started with. */
export type WheelOrders = Exclude<AnyOrder, InstallOrder> | WheelOrder;

/** What is kept about a wheel beside its layer. */
export type WheelFacts = InstalledWheel;

/**
 * Returns the key of a wheel's layer, known before the layer is made. The address of the wheel is part of it, but not of the bytes: who
 * knows the digest of a wheel on a private index must not get it by naming another address.
 */
export function wheelLayerKey({ package: it, place }: WheelSubject): string {
  const { prefix, python, lostPaths = [] } = place;
  const subject = [
    ...['wheel', layerVersion, it.sha256, it.url, prefix, python.minorVersion, python.sitePackages],
    ...[it.directUrl ?? null, lostPaths],
  ];
  return createHash('sha256').update(JSON.stringify(subject)).digest('hex');
}
