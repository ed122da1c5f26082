/** A form of document about a solution: a lock file or a bill of materials. */
export interface DocumentForm {
  /** File name: `pixi.lock`. */
  readonly title: string;
  /** Artifact type of the referrer, and media type of its content. */
  readonly artifactType: string;
  /** Media type of a response over HTTP. */
  readonly mediaType: string;
}

export const documentForms = {
  explicit: {
    title: 'conda-lock.txt',
    artifactType: 'application/vnd.sluice.conda.lock.v1',
    mediaType: 'text/plain; charset=utf-8',
  },
  pixi: {
    title: 'pixi.lock',
    artifactType: 'application/vnd.sluice.pixi.lock.v1',
    mediaType: 'application/yaml',
  },
  'conda-lock': {
    title: 'conda-lock.yml',
    artifactType: 'application/vnd.sluice.conda-lock.v1',
    mediaType: 'application/yaml',
  },
  spdx: {
    title: 'bom.spdx.json',
    artifactType: 'application/spdx+json',
    mediaType: 'application/spdx+json',
  },
  cyclonedx: {
    title: 'bom.cdx.json',
    artifactType: 'application/vnd.cyclonedx+json',
    mediaType: 'application/vnd.cyclonedx+json',
  },
} as const satisfies Record<string, DocumentForm>;

export type DocumentName = keyof typeof documentForms;
