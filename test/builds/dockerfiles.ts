// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is Dockerfiles that have them
import type { BaseImageOptions } from '../../src/builds/recipe/dockerfile/base-images.ts';

/** A Dockerfile and the images it needs: line, use where it is not FROM, name. */
export interface DockerfileCase {
  readonly text: string;
  readonly images: readonly string[];
  readonly options?: BaseImageOptions;
}

const lines = (...list: string[]) => `${list.join('\n')}\n`;
const arm = { os: 'linux', architecture: 'arm64' };

/** Dockerfiles with images at unexpected places. */
export const dockerfiles: Readonly<Record<string, DockerfileCase>> = {
  'one stage': { text: 'FROM alpine:3.20', images: ['1 alpine:3.20'] },
  'names in full': {
    text: lines(
      'FROM docker.io/library/alpine AS a',
      'FROM quay.io:443/x/y@sha256:' + 'a'.repeat(64),
      'COPY --from=a b c',
    ),
    images: ['1 alpine:latest', `2 quay.io:443/x/y@sha256:${'a'.repeat(64)}`],
  },
  'capital letters do not matter to instructions and stages': {
    text: lines('from alpine as Build', 'FROM busybox', 'copy --from=BUILD /a /b'),
    images: ['1 alpine:latest', '2 busybox:latest'],
  },
  'each once': {
    text: lines(
      'FROM alpine AS a',
      'FROM docker.io/library/alpine:latest',
      'COPY --from=alpine b c',
      'COPY --from=a b c',
    ),
    images: ['1 alpine:latest'],
  },
  'stages and scratch are not images': {
    text: lines(
      'FROM alpine AS base',
      'FROM base AS next',
      'FROM scratch',
      'COPY --from=next a b',
      'COPY --from=0 a b',
      'COPY --from=scratch a b',
    ),
    images: ['1 alpine:latest'],
  },
  'only stages that the target needs': {
    text: lines('FROM unused', 'FROM used AS a', 'FROM alpine', 'COPY --from=a b c'),
    images: ['2 used:latest', '3 alpine:latest'],
  },
  'another target': {
    text: lines('FROM one AS a', 'FROM two AS b', 'FROM three'),
    images: ['2 two:latest'],
    options: { target: 'B' },
  },
  'a stage that has the name of an image': {
    text: lines('FROM alpine AS alpine', 'FROM alpine', 'RUN x'),
    images: ['1 alpine:latest'],
  },
  'a name that is used twice': {
    text: lines('FROM one AS a', 'FROM two AS a', 'FROM a'),
    images: ['2 two:latest'],
  },
  'a stage that comes later is a stage to COPY': {
    text: lines('FROM alpine AS a', 'COPY --from=later x y', 'FROM busybox AS later', 'FROM a'),
    images: ['1 alpine:latest', '3 busybox:latest'],
  },
  'COPY and RUN name images': {
    text: lines(
      'FROM alpine',
      'COPY --chown=1 --from=ghcr.io/a/b:1 x y',
      'RUN --network=none --mount=type=bind,from=c/d,target=/x ls',
    ),
    images: ['1 alpine:latest', '2 COPY ghcr.io/a/b:1', '3 RUN c/d:latest'],
  },
  'a mount by number is an image': {
    text: lines('FROM alpine', 'RUN --mount=from=0,target=/x ls'),
    images: ['1 alpine:latest', '2 RUN 0:latest'],
  },
  'mounts of all kinds': {
    text: lines(
      'FROM alpine',
      'RUN --mount=type=cache,from=one,target=/a --mount=type=tmpfs,target=/b --mount=type=secret,id=x ls',
      'RUN --mount="from=two","target=/x" ls',
      `RUN --mount='"from=three",target=/x' ls`,
      'RUN --mount=from=no,from=four,target=/x ls',
      'RUN --mount=FROM=five,target=/x ls',
    ),
    images: [
      '1 alpine:latest',
      '2 RUN one:latest',
      '3 RUN two:latest',
      '4 RUN three:latest',
      '5 RUN four:latest',
      '6 RUN five:latest',
    ],
  },
  'options in quotes': {
    text: lines(
      'FROM alpine',
      `COPY "--from=one" a b`,
      `COPY --fr'om=two' a b`,
      'COPY --from=th\\ree a b',
    ),
    images: ['1 alpine:latest', '3 COPY two:latest', '4 COPY three:latest'],
  },
  'after --, nothing is an option': {
    text: lines('FROM alpine', 'COPY -- --from=one b'),
    images: ['1 alpine:latest'],
  },
  ONBUILD: {
    text: lines(
      'FROM alpine AS base',
      'ONBUILD COPY --from=one a b',
      'ONBUILD RUN --mount=from=two x',
      'FROM base',
    ),
    images: ['1 alpine:latest', '2 COPY one:latest', '3 RUN two:latest'],
  },
  'ARG with defaults': {
    text: lines('ARG BASE', 'ARG TAG=3.20', 'FROM ${BASE:-alpine}:$TAG'),
    images: ['3 alpine:3.20'],
  },
  'ARG with other ARGs, in quotes, several in one line': {
    text: lines('ARG HOST="quay.io" NAME=\'a$b\'', `ARG FULL=$HOST/"x"/y`, 'FROM ${FULL}'),
    images: ['3 quay.io/x/y:latest'],
  },
  'ARG before FROM only': {
    text: lines('ARG A=one', 'FROM $A', 'ARG A=two', 'ENV A=three', 'FROM $A'),
    images: ['5 one:latest'],
  },
  'ARG overridden': {
    text: lines('ARG A=one', 'ARG B=$A', 'FROM $B'),
    images: ['3 two:latest'],
    options: { buildArgs: { A: 'two', C: 'x' } },
  },
  'all operators': {
    text: lines(
      'ARG N=registry.example.com/team/app-1.2.3',
      'FROM ${N#*/} AS a',
      'FROM ${N##*/} AS b',
      'FROM ${N%-*} AS c',
      'FROM ${N%%/*}/x AS d',
      'FROM ${N/team/group} AS e',
      'FROM ${N//e/i} AS f',
      'FROM ${X-g} AS g',
      'FROM ${N+h} AS h',
      'FROM ${N/app?1*3/i} AS i',
      'FROM scratch',
      ...[...'abcdefghi'].map(name => `COPY --from=${name} x y`),
    ),
    images: [
      '2 team/app-1.2.3:latest',
      '3 app-1.2.3:latest',
      '4 registry.example.com/team/app:latest',
      '5 registry.example.com/x:latest',
      '6 registry.example.com/group/app-1.2.3:latest',
      '7 rigistry.ixampli.com/tiam/app-1.2.3:latest',
      '8 g:latest',
      '9 h:latest',
      '10 registry.example.com/team/i:latest',
    ],
  },
  'the platform': {
    text: lines(
      'FROM --platform=$BUILDPLATFORM tools-$BUILDARCH AS a',
      'FROM app-${TARGETARCH}${TARGETVARIANT}',
      'COPY --from=a x y',
    ),
    images: ['1 tools-amd64:latest', '2 app-arm64:latest'],
    options: { platform: arm, builderPlatform: { os: 'linux', architecture: 'amd64' } },
  },
  'lines that go on': {
    text: lines(
      'FROM \\',
      '# not the end',
      '',
      '  alpine \\',
      ' AS a',
      'FROM a',
      'COPY \\  ',
      '  --from=one \\',
      '  x y',
    ),
    images: ['1 alpine:latest', '7 COPY one:latest'],
  },
  'a line that seems to go on': {
    text: lines('FROM alpine', 'RUN x \\\\', 'COPY --from=one a b'),
    images: ['1 alpine:latest', '3 COPY one:latest'],
  },
  'a comment that seems to go on': {
    text: lines('FROM alpine', '# x \\', 'COPY --from=one a b'),
    images: ['1 alpine:latest', '3 COPY one:latest'],
  },
  'another escape character': {
    text: lines('# escape=`', 'FROM alpine', 'COPY --from=one x C:\\', 'COPY `', '--from=two a b'),
    images: ['2 alpine:latest', '3 COPY one:latest', '4 COPY two:latest'],
  },
  'an escape directive that comes too late': {
    text: lines('# a comment', '# escape=`', 'FROM alpine', 'RUN x \\', 'COPY --from=no a b'),
    images: ['3 alpine:latest'],
  },
  'here-documents': {
    text: lines(
      'FROM alpine',
      'RUN <<EOF cat <<-"END" && cat << \'X Y\'',
      'COPY --from=no a b',
      'EOF',
      'FROM no',
      '\tEND',
      'COPY --from=no a b',
      'X Y',
      'COPY --from=one <<A /x',
      'FROM no',
      'A ',
      'A',
      'COPY --from=two a b',
    ),
    images: ['1 alpine:latest', '9 COPY one:latest', '13 COPY two:latest'],
  },
  'text that only looks like a here-document': {
    text: lines(
      'FROM alpine',
      `RUN echo '<<EOF'`,
      'COPY --from=one a b',
      'RUN x<<EOF',
      'COPY --from=two a b',
      'RUN ["x", "<<EOF"]',
      'COPY --from=three a b',
      'RUN cat <<<EOF',
      'COPY --from=four a b',
      'LABEL a=<<EOF',
      'COPY --from=five a b',
      'RUN ${x^^} <<EOF',
      'COPY --from=six a b',
    ),
    images: [
      '1 alpine:latest',
      '3 COPY one:latest',
      '5 COPY two:latest',
      '7 COPY three:latest',
      '9 COPY four:latest',
      '11 COPY five:latest',
      '13 COPY six:latest',
    ],
  },
  'here-documents behind a substitution of the shell': {
    text: lines('FROM alpine', 'RUN echo ${x:1:2} 3<<EOF', 'COPY --from=no a b', 'EOF'),
    images: ['1 alpine:latest'],
  },
  'ONBUILD with a here-document': {
    text: lines('FROM alpine', 'ONBUILD RUN <<EOF', 'FROM no', 'EOF', 'COPY --from=one a b'),
    images: ['1 alpine:latest', '5 COPY one:latest'],
  },
  'Windows line ends and a byte order mark': {
    text: '\ufeff# escape=`\r\nFROM alpine\r\nRUN <<E\r\nFROM no\r\nE\r\nCOPY `\r\n --from=one a b\r\n',
    images: ['2 alpine:latest', '6 COPY one:latest'],
  },
  'blanks of all kinds': {
    text: '\t FROM\t alpine \v\n\u00a0COPY \u00a0 --from=one\ta b\n',
    images: ['1 alpine:latest'],
  },
  'named contexts take the place of images and stages': {
    text: lines(
      'FROM alpine AS a',
      'FROM one:1 AS b',
      'FROM two',
      'COPY --from=b x y',
      'COPY --from=three x y',
      'COPY --from=a x y',
    ),
    images: ['1 x.io/a:1', '2 x.io/b:1', '3 two:latest', '5 COPY x.io/c:1'],
    options: { namedContexts: { alpine: 'x.io/a:1', b: 'x.io/b:1', three: 'x.io/c:1' } },
  },
  'a stage that is replaced needs nothing': {
    text: lines(
      'FROM one AS a',
      'FROM two AS b',
      'COPY --from=a x y',
      'COPY --from=three x y',
      'FROM scratch',
      'COPY --from=b x y',
    ),
    images: ['2 x.io/b:1'],
    options: { namedContexts: { b: 'x.io/b:1' } },
  },
  'a named context is the image that BuildKit calls so': {
    text: lines(
      'FROM docker.io/library/alpine:latest AS a',
      'FROM registry-1.docker.io/library/alpine',
      'COPY --from=index.docker.io/alpine x y',
      'COPY --from=alpine:3 x y',
      'COPY --from=a x y',
    ),
    images: ['1 x.io/a:1', '2 alpine:latest', '4 COPY alpine:3'],
    options: { namedContexts: { alpine: 'x.io/a:1' } },
  },
  'the program that reads the file is replaced too': {
    text: lines('# syntax=docker/dockerfile:1', 'FROM alpine'),
    images: ['1 syntax x.io/evil:1', '2 alpine:latest'],
    options: { namedContexts: { 'docker/dockerfile:1': 'x.io/evil:1' } },
  },
  'the program that reads the file': {
    text: lines('# syntax=docker/dockerfile:1', 'FROM alpine'),
    images: ['1 syntax docker/dockerfile:1', '2 alpine:latest'],
  },
};
