import { Fault } from '../../foundation/fault.ts';
import {
  type Descriptor,
  type Document,
  type ImageManifest,
  parseManifest,
} from '../../oci/index.ts';
import {
  defaultPlatformName,
  formatPlatform,
  isAttestation,
  isNestedIndex,
} from '../../oci/naming.ts';
import type { CredentialSource } from '../../upstream/auth/index.ts';
import type { OpenedImage, OpenInspected } from './open-inspected.ts';

/** An image that a caller may pull, for one platform. */
export interface ChosenImage {
  readonly opened: OpenedImage;
  readonly platforms: readonly OfferedPlatform[];
  /** Manifest of the chosen platform. */
  readonly document: Document;
  readonly manifest: ImageManifest;
}

export interface OfferedPlatform {
  /** Such as `linux/arm64/v8`. */
  readonly name: string;
  readonly isChosen: boolean;
}

// An index of an index of an index: no tool makes more.
const mostLevels = 4;

/**
 * Opens an image and selects a platform. Throws a `Fault` for an image that the viewer may not pull.
 *
 * @param platform such as `linux/arm64`. Default: linux/amd64, or the first one
 */
export async function chooseImage(
  openInspected: OpenInspected,
  name: string,
  platform: string | undefined,
  credentials: CredentialSource,
): Promise<ChosenImage> {
  const opened = await openInspected(name, credentials);
  let document = opened.root;
  let platforms: readonly OfferedPlatform[] = [];
  for (let level = 0; level < mostLevels; level += 1) {
    const manifest = parseManifest(document);
    if (manifest.kind === 'manifest') return { opened, platforms, document, manifest };
    if (manifest.kind !== 'index') break;
    const offered = manifest.manifests.filter(entry => !isAttestation(entry));
    const chosen = chooseEntry(offered, platform);
    if (offered.some(entry => entry.platform)) {
      platforms = offered.map(entry => ({ name: nameOf(entry), isChosen: entry === chosen }));
    }
    document = await opened.documents.manifest(opened.access, chosen.digest, chosen.mediaType);
  }
  throw new Fault(
    'bad-request',
    `The image has a manifest that Sluice cannot show (${document.mediaType}): name an image or an index, or push it again with a current client`,
    { phase: 'request' },
  );
}

function chooseEntry(offered: readonly Descriptor[], wanted: string | undefined): Descriptor {
  const named = (name: string) => offered.find(entry => nameOf(entry) === name);
  const chosen = wanted
    ? (named(wanted) ?? offered.find(isNestedIndex))
    : (named(defaultPlatformName) ?? offered[0]);
  if (chosen) return chosen;
  const names = offered.map(nameOf).join(', ') || 'none';
  throw new Fault('bad-request', `The image has no such platform; it has: ${names}`, {
    phase: 'request',
  });
}

function nameOf({ platform }: Descriptor): string {
  if (!platform) return 'any platform';
  const { os, architecture, variant } = platform;
  const name = formatPlatform({ os, architecture, ...(variant ? { variant } : {}) });
  const version = platform['os.version'];
  return version ? `${name} ${version}` : name;
}
