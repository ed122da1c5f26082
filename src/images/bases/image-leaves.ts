import { Fault } from '../../foundation/fault.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  type ImageManifest,
  type Manifest,
  mayBeImage,
  parseJson,
  parseManifest,
} from '../../oci/index.ts';
import { goArchitecture, isAttestation, namesOf, type Platform } from '../../oci/naming.ts';
import type { Access } from '../../upstream/index.ts';
import { type Documents, imageConfig } from '../documents.ts';
import { sifLayerType } from '../sif/index.ts';

/** An image that a builder may choose in an index, or the image itself. */
export interface ImageLeaf {
  readonly document: Document;
  readonly manifest: ImageManifest;
  readonly config: Document;
  /** The entry of the index; undefined for an image without one. */
  readonly entry: Descriptor | undefined;
}

/** The documents of an image, from wherever it is. */
export interface LeafSource {
  readonly access: Access;
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
}

// As for the image of one platform.
const mostLevels = 4;
const mostEntries = 32;

/**
 * Returns the images of a manifest or index that a builder may choose for these platforms. Throws a {@link Fault}, whose
 * message continues a sentence about the image, for anything that is not an image and for more images than an index in
 * use has.
 */
export async function imageLeaves(
  source: LeafSource,
  root: Document,
  platforms: readonly Platform[],
): Promise<readonly ImageLeaf[]> {
  const { access, documents } = source;
  const leaves: ImageLeaf[] = [];

  const visit = async (document: Document, entry: Descriptor | undefined, level: number) => {
    requirePlainNames(document, manifestNames);
    const manifest = parseManifest(document);
    const config =
      manifest.kind === 'manifest' ? await imageConfig(documents, access, manifest) : undefined;
    if (manifest.kind === 'manifest' && config) {
      requirePlainNames(config, configNames);
      leaves.push({ document, manifest, config, entry });
      if (leaves.length > mostEntries) throw tooMany();
      return;
    }
    if (manifest.kind !== 'index' || level === mostLevels) {
      // An artifact in an index is nothing that a builder chooses.
      if (entry !== undefined) return;
      throw notImage(manifest);
    }
    for (const one of chosen(manifest.manifests, platforms)) {
      const { digest, mediaType } = one;
      await visit(await documents.manifest(access, digest, mediaType), one, level + 1);
    }
  };
  await visit(root, undefined, 0);
  return leaves;
}

/** Returns the entries of an index that are for one of the platforms, or do not say what they are for. */
function chosen(
  manifests: readonly Descriptor[],
  platforms: readonly Platform[],
): readonly Descriptor[] {
  const images = manifests.filter(entry => mayBeImage(entry) && !isAttestation(entry));
  const found = new Set<Descriptor>(images.filter(({ platform }) => !platform));
  for (const { os, architecture } of platforms) {
    const of = (wanted: string | undefined) =>
      images.filter(
        ({ platform }) => platform?.os === os && goArchitecture(platform.architecture) === wanted,
      );
    const same = of(architecture);
    // Builders fall back to the other one where an index has no image for a platform.
    const others = same.length > 0 ? same : of(namesOf(architecture)?.fallback);
    for (const entry of others) found.add(entry);
  }
  return [...found];
}

/** The members of a document that builders read, by their names. */
interface Names {
  readonly [name: string]: Names;
}

const none: Names = {};
const descriptorNames: Names = {
  mediaType: none,
  digest: none,
  size: none,
  urls: none,
  platform: { os: none, architecture: none, variant: none },
};
const manifestNames: Names = {
  schemaVersion: none,
  mediaType: none,
  config: descriptorNames,
  layers: descriptorNames,
  manifests: descriptorNames,
};
const configNames: Names = {
  os: none,
  architecture: none,
  variant: none,
  rootfs: { diff_ids: none },
  config: { OnBuild: none },
};

/**
 * Throws a {@link Fault} for a member whose name differs only in its case from one that counts: builders, which are
 * written in Go, take it for that one, so they would see another image.
 */
function requirePlainNames({ bytes }: Document, names: Names): void {
  const check = (value: unknown, known: Names): void => {
    if (Array.isArray(value)) {
      for (const one of value) check(one, known);
      return;
    }
    const folded = new Set(Object.keys(known).map(foldedName));
    for (const [member, inner] of Object.entries(asObject(value) ?? {})) {
      const below = Object.hasOwn(known, member) ? known[member] : undefined;
      if (below) check(inner, below);
      else if (folded.has(foldedName(member))) throw ambiguous(member);
    }
  };
  check(parseJson(bytes, 'manifest'), names);
}

/** Source: Go's behaviour, encoding/json: names are equal if their letters are, under Unicode's simple folding. */
function foldedName(name: string): string {
  return name.toUpperCase().toLowerCase();
}

function ambiguous(member: string): Fault {
  return new Fault(
    'bad-request',
    `it is ambiguous: a document of it has the member ${JSON.stringify(member.slice(0, 40))}, which programs read differently. Build the image again with another tool`,
    { phase: 'build' },
  );
}

function notImage(manifest: Manifest): Fault {
  const isSif =
    manifest.kind === 'manifest' && manifest.layers.some(layer => layer.mediaType === sifLayerType);
  return new Fault(
    'bad-request',
    isSif
      ? "it is a Singularity image: build from it in a definition file, with 'Bootstrap: oras'"
      : 'it is an artifact, not a container image: a build can only use images',
    { phase: 'build' },
  );
}

function tooMany(): Fault {
  return new Fault(
    'bad-request',
    `it has more than ${mostEntries} images for the platforms of this build: name one of them by its digest`,
    { phase: 'build' },
  );
}
