import { Fault } from '../../foundation/fault.ts';
import { imageConfig, selectImage } from '../../images/index.ts';
import { readSif, sifLayerType } from '../../images/sif/index.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  type JsonObject,
  manifestType,
  parseLossless,
  parseManifest,
} from '../../oci/index.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import type { Platform, Reference } from '../../oci/naming.ts';
import type { CredentialSource } from '../../upstream/auth/index.ts';
import { type Access, type RegistryClient, readPart } from '../../upstream/index.ts';
import type { InspectedImage } from './inspect-served.ts';
import type { OpenInspected } from './open-inspected.ts';

/** Returns the metadata of an image for one platform, or of the whole index. Throws a `Fault`. */
export type Inspect = (
  image: string,
  platform: Platform | 'all',
  credentials: CredentialSource,
) => Promise<JsonObject>;

export interface InspectDeps {
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
    return { container: await describe({ ...deps, documents }, access, image, chosen) };
  };
}

/** Adds the name of the parameter that selects another platform. */
async function withAdvice(selected: Promise<Document>): Promise<Document> {
  try {
    return await selected;
  } catch (error) {
    if (!(error instanceof Fault) || error.phase !== 'request') throw error;
    throw error.retold(
      `${error.message}: choose one with ?platform=, or all of them with ?platform=all`,
    );
  }
}

async function describe(
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
