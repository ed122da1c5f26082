import { type Instruction, plainWords } from '../../../builds/recipe/dockerfile/instructions.ts';

/** An instruction that is a separate step. */
export interface InstructionPlace {
  /** In upper case. */
  readonly name: string;
  /** The line that it begins in, counted from 1. */
  readonly line: number;
  readonly isInLastStage: boolean;
  /** Of its step, see {@link placeKey}. */
  readonly key: string;
}

interface Numbered {
  readonly instruction: Instruction;
  /** Number of the stage, counted from 0. */
  readonly stage: number;
  readonly stageName: string | undefined;
  /** Number of the step in its stage, counted from 1. */
  readonly step: number;
}

const withSteps = new Set(['ADD', 'COPY', 'RUN', 'WORKDIR']);

/**
 * Returns the places of instructions that are steps. BuildKit names a step after its stage and its number there:
 * `[build 2/4] RUN make`, `[linux/arm64 2/2] COPY . /`. Only one stage with its platforms has no name.
 * Source: BuildKit's Dockerfile frontend, `dockerfile2llb/convert.go`, `prefixCommand` and `cmdTotal`.
 */
export function placesOf(instructions: readonly Instruction[]): readonly InstructionPlace[] {
  const numbered: Numbered[] = [];
  const names: (string | undefined)[] = [];
  let step = 0;
  for (const instruction of instructions) {
    if (instruction.name === 'FROM') {
      const [base = '', , name] = plainWords(instruction.rest);
      // A stage on another stage, or on nothing, pulls no image.
      const pulls = base !== 'scratch' && !names.includes(base.toLowerCase());
      names.push(name?.toLowerCase());
      step = pulls ? 1 : 0;
      if (!pulls) continue;
    } else if (names.length > 0 && withSteps.has(instruction.name)) step += 1;
    else continue;
    const stage = names.length - 1;
    numbered.push({ instruction, stage, stageName: names[stage], step });
  }
  const totals = names.map((_, stage) => numbered.filter(one => one.stage === stage).length);
  return numbered.map(({ instruction, stage, stageName, step }) => {
    const own = stageName ?? (names.length === 1 ? '' : `stage-${stage}`);
    return {
      ...{ name: instruction.name, line: instruction.line },
      isInLastStage: stage === names.length - 1,
      key: `${own} ${step}/${totals[stage]} ${instruction.name}`,
    };
  });
}

/** Returns what the name of a step says about its place; undefined for a step of no instruction. */
export function placeKey(step: string): string | undefined {
  const [, prefix, number, name] = /^\[([^\]]*?)(\d{1,9}\/\d{1,9})\] (\S+)/.exec(step) ?? [];
  if (prefix === undefined) return undefined;
  const own = prefix.trim().split(' ').at(-1) ?? '';
  const isPlatform = /^[a-z0-9]+\/[a-z0-9]/.test(own);
  return `${isPlatform ? '' : own} ${number} ${name?.toUpperCase()}`;
}
