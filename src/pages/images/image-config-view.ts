import { asObject, type JsonObject } from '../../oci/index.ts';

/** The configuration of an image, as far as it was set. */
export interface ConfigView {
  readonly created: string | undefined;
  readonly platform: string | undefined;
  readonly user: string | undefined;
  readonly workingDirectory: string | undefined;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly environment: readonly string[];
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
  readonly stopSignal: string | undefined;
  readonly healthCheck: readonly string[];
  readonly labels: readonly (readonly [name: string, value: string])[];
}

/** A step of the history of an image. */
export interface HistoryStep {
  readonly createdBy: string;
  readonly comment: string | undefined;
  readonly created: string | undefined;
  /** Number of the layer that the step made, counted from 1; undefined for a step that changed no files. */
  readonly layer: number | undefined;
}

/** Reads an image configuration. Ignores members of a wrong type: the registry may send anything. */
export function configView(config: JsonObject): ConfigView {
  const run = asObject(config.config) ?? {};
  const system = [config.os, config.architecture, config.variant].map(textOf).filter(Boolean);
  return {
    created: textOf(config.created),
    platform: system.length > 0 ? system.join('/') : undefined,
    user: textOf(run.User),
    workingDirectory: textOf(run.WorkingDir),
    entrypoint: textsOf(run.Entrypoint),
    command: textsOf(run.Cmd),
    environment: textsOf(run.Env),
    ports: Object.keys(asObject(run.ExposedPorts) ?? {}),
    volumes: Object.keys(asObject(run.Volumes) ?? {}),
    stopSignal: textOf(run.StopSignal),
    healthCheck: textsOf(asObject(run.Healthcheck)?.Test),
    labels: Object.entries(asObject(run.Labels) ?? {}).map(([name, value]) => [
      name,
      textOf(value) ?? '',
    ]),
  };
}

/** Joins the history with the layers. Layers without a step get an empty one. */
export function historySteps(config: JsonObject, layers: number): HistoryStep[] {
  const steps: HistoryStep[] = [];
  let layer = 0;
  for (const entry of Array.isArray(config.history) ? config.history : []) {
    const step = asObject(entry) ?? {};
    const isEmpty = step.empty_layer === true || layer >= layers;
    if (!isEmpty) layer += 1;
    steps.push({
      createdBy: textOf(step.created_by) ?? '',
      comment: textOf(step.comment),
      created: textOf(step.created),
      layer: isEmpty ? undefined : layer,
    });
  }
  while (layer < layers) {
    layer += 1;
    steps.push({ createdBy: '', comment: undefined, created: undefined, layer });
  }
  return steps;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns a list of texts; a single text is a list of one. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(entry => typeof entry === 'string') : [];
}
