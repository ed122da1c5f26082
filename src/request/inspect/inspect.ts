import { Fault } from '../../foundation/fault.ts';
import { type BaseResolver, type Documents, imageConfig, selectImage } from '../../images/index.ts';
import { readSif, sifLayerType } from '../../images/sif/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  type ImageManifest,
  type JsonObject,
  manifestType,
  parseLossless,
  parseManifest,
} from '../../oci/index.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import {
  defaultPlatformName,
  formatPlatform,
  isAttestation,
  isNestedIndex,
  type Platform,
  parseReference,
  type Reference,
} from '../../oci/naming.ts';
import type { CredentialSource } from '../../upstream/auth/index.ts';
import { type Access, accessTo, type RegistryClient, readPart } from '../../upstream/index.ts';
import { orasScheme } from '../asked-image.ts';
import type { ContainerRequest } from '../container-request.ts';
import type { FindServed } from '../served-name.ts';

/** Returns the metadata of an image for one platform, or of the whole index. Throws a `Fault`. */
export type Inspect = (
  image: string,
  platform: Platform | 'all',
  credentials: CredentialSource,
) => Promise<JsonObject>;

interface InspectDeps {
  readonly openInspected: OpenInspected;
  readonly registry: RegistryClient;
  readonly urlOf: (registry: string) => string;
}

export function createInspect(deps: InspectDeps): Inspect {
  return async (text, platform, credentials) => {
    const { name: image, access, root, documents } = await deps.openInspected(text, credentials);
    const isIndex = parseManifest(root).kind === 'index';
    if (isIndex && platform === 'all') {
      return { index: { ...parseLossless(root.bytes, 'index'), digest: root.digest } };
    }
    // A single image is shown for any platform: there is no choice.
    const chosen =
      isIndex && platform !== 'all'
        ? await withAdvice(selectImage(documents, access, image, root, platform))
        : root;
    return { container: await describeInspected({ ...deps, documents }, access, image, chosen) };
  };
}

/** Adds the name of the parameter that selects another platform. */
async function withAdvice(selected: Promise<Document>): Promise<Document> {
  try {
    return await selected;
  } catch (error) {
    if (!(error instanceof Fault) || error.phase !== 'request') throw error;
    throw error.withMessage(
      `${error.message}: choose one with ?platform=, or all of them with ?platform=all`,
    );
  }
}

async function describeInspected(
  {
    documents,
    registry,
    urlOf,
  }: Pick<InspectDeps, 'registry' | 'urlOf'> & Pick<InspectedImage, 'documents'>,
  access: Access,
  image: Reference,
  document: Document,
): Promise<JsonObject> {
  const manifest = parseManifest(document);
  const type = manifestType(document);
  const file = manifest.kind === 'manifest' ? manifest.layers.find(isSif) : undefined;
  const sif = file && (await describeSif(registry, access, file));
  const own =
    manifest.kind === 'manifest' ? await imageConfig(documents, access, manifest) : undefined;
  const config = own ? parseLossless(own.bytes, 'config') : sif?.config;
  const isOci = type === mediaTypes.ociManifest;
  return {
    registry: image.registry,
    hostName: urlOf(image.registry),
    imageName: image.repository,
    reference: image.digest ?? image.tag ?? 'latest',
    digest: document.digest,
    ...(config ? { config: describeConfig(config) } : {}),
    manifest: { ...parseLossless(document.bytes, 'manifest'), mediaType: type },
    ...(sif ? { sif: sif.about } : {}),
    v1: false,
    v2: true,
    oci: isOci,
  };
}

function isSif({ mediaType }: Descriptor): boolean {
  return mediaType === sifLayerType;
}

const runtimeNames: Readonly<Record<string, string>> = {
  Hostname: 'hostName',
  Domainname: 'domainName',
  User: 'user',
  AttachStdin: 'attachStdin',
  AttachStdout: 'attachStdout',
  AttachStderr: 'attachStderr',
  Tty: 'tty',
  Env: 'env',
  Cmd: 'cmd',
  Image: 'image',
  WorkingDir: 'workingDir',
  Entrypoint: 'entrypoint',
  Labels: 'labels',
};

/** Returns the members of an image config under the names of the specification; omits empty ones. */
function describeConfig(config: JsonObject): JsonObject {
  const runtime: JsonObject = {};
  for (const [name, value] of Object.entries(asObject(config.config) ?? {})) {
    const own = runtimeNames[name];
    if (own !== undefined && value !== null && value !== '') runtime[own] = value;
  }
  const { architecture, os, variant, container, created, rootfs } = config;
  const known = { architecture, os, variant, container, created, rootfs };
  const present = Object.fromEntries(
    Object.entries(known).filter(([, value]) => value !== undefined && value !== null),
  );
  return { ...present, config: runtime };
}

/** Returns the metadata of a SIF file in a registry. Fetches only the part before its file system. */
async function describeSif(
  registry: RegistryClient,
  access: Access,
  { digest, size }: Descriptor,
): Promise<{ about: JsonObject; config: JsonObject }> {
  const sif = await readSif(async (offset, length) => {
    const last = Math.min(offset + length, size) - 1;
    if (last < offset) return Buffer.alloc(0);
    const opened = await registry.openBlob(access, digest, { offset, last, redirects: 'follow' });
    if (opened.kind === 'redirect') throw new Error('a redirect was not followed');
    // A registry without range support starts at the beginning.
    return readPart(opened.response.body, offset - opened.offset, length);
  });
  const { version, architecture, createdAt, id, definition, metadata, ociConfig } = sif;
  const created = new Date(createdAt).toISOString();
  return {
    about: {
      version,
      id,
      created,
      ...(definition === undefined ? {} : { definition }),
      ...(metadata === undefined ? {} : { metadata }),
    },
    config: { architecture: architecture ?? '', os: 'linux', created, config: ociConfig ?? {} },
  };
}

/** An image that the caller may pull. */
export interface OpenedImage extends InspectedImage {
  readonly name: Reference;
}

/** Opens an image by its name, with the rights of the caller. Throws a `Fault` for one that the caller may not pull. */
export type OpenInspected = (image: string, credentials: CredentialSource) => Promise<OpenedImage>;

export function createOpenInspected({
  bases,
  documents,
  openServed,
}: {
  readonly bases: BaseResolver;
  readonly documents: Documents;
  readonly openServed: OpenServed;
}): OpenInspected {
  return async (text, credentials) => {
    const name = parseReference(text.replace(orasScheme, ''));
    const served = await openServed(name);
    if (served) return { ...served, name };
    const access = await accessTo(name, credentials);
    const root = await bases.resolve(access, name);
    return { name, access, root, documents };
  };
}

/** An image to inspect, and access to its documents. */
export interface InspectedImage {
  readonly access: Access;
  readonly root: Document;
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
  /** Returns true for content that was written or submitted for the image, and is here. Default: nothing is. */
  owns?(digest: Digest): boolean;
}

/** Returns the image of a served name as clients pull it; undefined for other images. Throws a `Fault`. */
type OpenServed = (image: Reference) => Promise<InspectedImage | undefined>;

/** Returns the image of a container request as clients pull it. Throws a `Fault`. */
export type OpenRequest = (request: ContainerRequest) => Promise<InspectedImage>;

interface OpenRequestDeps {
  /** Finds the served image, with the rights of the caller that made the container request. */
  readonly findImage: (
    request: ContainerRequest,
  ) => Promise<Pick<InspectedImage, 'access' | 'root'> & { owns(digest: Digest): boolean }>;
  readonly documents: Pick<Documents, 'local' | 'manifest' | 'config'>;
}

export function createOpenRequest({ findImage, documents }: OpenRequestDeps): OpenRequest {
  return async request => {
    const image = await findImage(request);
    // Documents written for the image are here, and not in any registry.
    const written = async (digest: Digest, mediaType: string) =>
      image.owns(digest) ? documents.local(digest, mediaType) : undefined;
    return {
      access: image.access,
      root: image.root,
      owns: digest => image.owns(digest),
      documents: {
        manifest: async (access, digest, mediaType) =>
          (await written(digest, mediaType)) ?? documents.manifest(access, digest, mediaType),
        config: async (access, descriptor) =>
          (await written(descriptor.digest, descriptor.mediaType)) ??
          documents.config(access, descriptor),
      },
    };
  };
}

export function createOpenServed(findServed: FindServed, openRequest: OpenRequest): OpenServed {
  return async name => {
    const request = await findServed(name);
    return request && openRequest(request);
  };
}

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
