/** Names, digests, manifests and platforms of container images; README.md documents them. */

export {
  type Artifact,
  type ArtifactFile,
  artifactOf,
  type Subject,
  subjectOf,
} from './artifact.ts';
export { type Descriptor, descriptorSchema } from './descriptor.ts';
export {
  type Digest,
  type DigestAlgorithm,
  digestOf,
  isDigest,
  parseDigest,
  splitDigest,
} from './digest.ts';
export {
  asObject,
  type JsonObject,
  memberName,
  parseJson,
  parseLossless,
  writeJson,
} from './json.ts';
export {
  type Document,
  documentOf,
  familyOf,
  type ImageIndex,
  type ImageManifest,
  isImage,
  type Manifest,
  type ManifestParts,
  manifestType,
  mayBeImage,
  mayBeRunnable,
  type OpaqueManifest,
  parseManifest,
  partsOf,
  type Schema1Manifest,
} from './manifest.ts';
export {
  type Family,
  isImageConfigType,
  isIndexType,
  isLayerType,
  isManifestType,
  manifestAccept,
  mediaTypes,
} from './media-type.ts';
export {
  formatPlatform,
  goArchitecture,
  isAttestation,
  matchesPlatform,
  offeredPlatforms,
  type Platform,
  parsePlatform,
  selectPlatform,
} from './platform.ts';
export {
  canonicalRegistry,
  formatReference,
  isRepository,
  isTag,
  parseReference,
  type Reference,
  registryHost,
} from './reference.ts';
export { OciSyntaxError, type SyntaxSubject } from './syntax-error.ts';
