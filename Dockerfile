# A service of one model: docker build -t tribit . && docker run -p 127.0.0.1:8000:8000 -v "$PWD/models:/model:ro" tribit
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[serve]"

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "tribit[serve]" \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin tribit
USER 10001
# Requests run side by side; threads of BLAS inside each would only wait for one another.
ENV OPENBLAS_NUM_THREADS=1 PYTHONUNBUFFERED=1
# A folder, not a file: a file that is mounted by itself stays the old one when another takes its place.
VOLUME /model
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["tribit", "serve"]
CMD ["/model/model.tribit", "--host", "0.0.0.0", "--port", "8000"]
