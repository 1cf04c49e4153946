// SPDX-License-Identifier: Apache-2.0
// Trains a small neural network (2 inputs, two hidden layers, 1 output) to tell two spirals apart.
//
//   nvcc train_mlp.cu -o train_mlp && ./train_mlp [spirals.png]
//
// Expect the falling loss, one PASS line and a picture of the decision boundary. All kernels are
// here. The host repeats the trained network in double: each output must agree within 2^-20 of the
// sum of the magnitudes that went into it (a few dozen float roundings of 2^-24, tanhf's among
// them), the loss must have fallen tenfold, and 97% of the points must be on the right side.
// A step reads nothing back: the host only waits where it prints the loss.

#include <cmath>
#include <string>
#include <vector>

#include "check.cuh"
#include "png.h"

constexpr int kPoints = 256, kHidden = 16, kEpochs = 300, kReportEvery = 100;
constexpr float kLearningRate = 0.02f;
constexpr int kThreads = 128;

// A layer's weights: `outputs` rows of `inputs` weights and a bias, at `offset` in the parameters.
struct Layer {
  int inputs, outputs, offset;
  bool bounded;  // tanh; else linear

  __host__ __device__ int row() const { return inputs + 1; }
};

const Layer kLayers[] = {
    {2, kHidden, 0, true},
    {kHidden, kHidden, 3 * kHidden, true},
    {kHidden, 1, 3 * kHidden + (kHidden + 1) * kHidden, false},
};
constexpr int kLayerCount = 3;
constexpr int kParameters = 3 * kHidden + (kHidden + 1) * kHidden + (kHidden + 1);

__global__ void Forward(Layer layer, const float* parameters, const float* in, float* out,
                        int points) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points * layer.outputs) return;
  const int point = i / layer.outputs, output = i % layer.outputs;
  const float* weights = parameters + layer.offset + output * layer.row();
  float sum = weights[layer.inputs];
  for (int j = 0; j < layer.inputs; ++j) sum += weights[j] * in[point * layer.inputs + j];
  out[i] = layer.bounded ? tanhf(sum) : sum;
}

// The slope of the mean logistic loss at the output.
__global__ void OutputSlope(const float* out, const float* labels, float* slope, int points) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < points) slope[i] = (1.0f / (1.0f + expf(-out[i])) - labels[i]) / points;
}

// The slope at a layer's inputs, which are the tanh outputs of the layer before.
__global__ void InputSlope(Layer layer, const float* parameters, const float* in,
                           const float* out_slope, float* in_slope, int points) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points * layer.inputs) return;
  const int point = i / layer.inputs, input = i % layer.inputs;
  float sum = 0;
  for (int j = 0; j < layer.outputs; ++j) {
    sum +=
        out_slope[point * layer.outputs + j] * parameters[layer.offset + j * layer.row() + input];
  }
  in_slope[i] = sum * (1.0f - in[i] * in[i]);
}

// One thread per weight (and bias, whose input is 1) sums over all points.
__global__ void WeightSlope(Layer layer, const float* in, const float* out_slope, float* gradient,
                            int points) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= layer.row() * layer.outputs) return;
  const int output = i / layer.row(), input = i % layer.row();
  float sum = 0;
  for (int point = 0; point < points; ++point) {
    const float value = input < layer.inputs ? in[point * layer.inputs + input] : 1.0f;
    sum += value * out_slope[point * layer.outputs + output];
  }
  gradient[layer.offset + i] = sum;
}

// Adam (Kingma and Ba, 2015); `fade` holds 1 - beta^step for both moments.
__global__ void Adam(float* parameters, const float* gradient, float* mean, float* square,
                     float2 fade, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  mean[i] = 0.9f * mean[i] + 0.1f * gradient[i];
  square[i] = 0.99f * square[i] + 0.01f * gradient[i] * gradient[i];
  parameters[i] -= kLearningRate * (mean[i] / fade.x) / (sqrtf(square[i] / fade.y) + 1e-8f);
}

__host__ __device__ inline float LogisticLoss(float out, float label) {
  return fmaxf(out, 0.0f) - out * label + log1pf(expf(-fabsf(out)));
}

// One block: the mean loss over all points, added in a fixed order.
__global__ void MeanLoss(const float* out, const float* labels, float* loss, int points) {
  __shared__ float partial[kThreads];
  float sum = 0;
  for (int i = threadIdx.x; i < points; i += kThreads) sum += LogisticLoss(out[i], labels[i]);
  partial[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss = partial[0] / points;
}

int Blocks(int threads) {
  return example::DivideUp(threads, kThreads);
}

float* Upload(const std::vector<float>& values) {
  float* device = nullptr;
  CUDA_CHECK(cudaMalloc(&device, values.size() * sizeof(float)));
  CUDA_CHECK(
      cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  return device;
}

std::vector<float> Download(const float* device, size_t count) {
  std::vector<float> values(count);
  CUDA_CHECK(cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

// The network on the device, for up to `points` points at once.
class Network {
 public:
  Network(const std::vector<float>& parameters, int points)
      : parameters_(Upload(parameters)),
        gradient_(Upload(std::vector<float>(kParameters))),
        mean_(Upload(std::vector<float>(kParameters))),
        square_(Upload(std::vector<float>(kParameters))),
        loss_(Upload({0.0f})) {
    for (int i = 0; i < kLayerCount; ++i) {
      out_[i] = Upload(std::vector<float>(static_cast<size_t>(points) * kLayers[i].outputs));
      slope_[i] = Upload(std::vector<float>(static_cast<size_t>(points) * kLayers[i].outputs));
    }
  }

  ~Network() {
    for (float* buffer : {parameters_, gradient_, mean_, square_, loss_}) cudaFree(buffer);
    for (int i = 0; i < kLayerCount; ++i) {
      cudaFree(out_[i]);
      cudaFree(slope_[i]);
    }
  }

  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Leaves the network's output for each input in output().
  void Run(const float* inputs, int points) {
    for (int i = 0; i < kLayerCount; ++i) {
      Forward<<<Blocks(points * kLayers[i].outputs), kThreads>>>(
          kLayers[i], parameters_, i ? out_[i - 1] : inputs, out_[i], points);
    }
    LAUNCH_CHECK();
  }

  // One step of gradient descent over all points; waits for nothing.
  void Train(const float* inputs, const float* labels, int points, int step) {
    Run(inputs, points);
    OutputSlope<<<Blocks(points), kThreads>>>(output(), labels, slope_[kLayerCount - 1], points);
    for (int i = kLayerCount - 1; i >= 0; --i) {
      const Layer& layer = kLayers[i];
      const float* in = i ? out_[i - 1] : inputs;
      WeightSlope<<<Blocks(layer.row() * layer.outputs), kThreads>>>(layer, in, slope_[i],
                                                                     gradient_, points);
      if (i == 0) break;
      InputSlope<<<Blocks(points * layer.inputs), kThreads>>>(layer, parameters_, in, slope_[i],
                                                              slope_[i - 1], points);
    }
    const float2 fade = make_float2(1 - std::pow(0.9f, step), 1 - std::pow(0.99f, step));
    Adam<<<Blocks(kParameters), kThreads>>>(parameters_, gradient_, mean_, square_, fade,
                                            kParameters);
    LAUNCH_CHECK();
  }

  float Loss(const float* inputs, const float* labels, int points) {
    Run(inputs, points);
    MeanLoss<<<1, kThreads>>>(output(), labels, loss_, points);
    LAUNCH_CHECK();
    return Download(loss_, 1)[0];
  }

  const float* output() const { return out_[kLayerCount - 1]; }
  std::vector<float> parameters() const { return Download(parameters_, kParameters); }

 private:
  float *parameters_, *gradient_, *mean_, *square_, *loss_;
  float *out_[kLayerCount], *slope_[kLayerCount];
};

// Points of two intertwined spirals; `labels` says which one.
void MakeSpirals(std::vector<float>& inputs, std::vector<float>& labels) {
  example::Random random(5);
  for (int i = 0; i < kPoints; ++i) {
    const float along = std::sqrt((i / 2 + 1.0f) / (kPoints / 2)), side = i % 2 ? 3.14159265f : 0;
    const float angle = 10.0f * along + side;
    inputs.push_back(along * std::cos(angle) + random.Uniform(-0.02f, 0.02f));
    inputs.push_back(along * std::sin(angle) + random.Uniform(-0.02f, 0.02f));
    labels.push_back(static_cast<float>(i % 2));
  }
}

std::vector<float> FirstParameters() {
  example::Random random(6);
  std::vector<float> parameters(kParameters);
  for (const Layer& layer : kLayers) {
    const float reach = layer.inputs == 2 ? 2.5f : std::sqrt(6.0f / (layer.inputs + layer.outputs));
    for (int i = 0; i < layer.row() * layer.outputs; ++i)
      parameters[layer.offset + i] = random.Uniform(-reach, reach);
  }
  return parameters;
}

// A value and the sum of the magnitudes it was made of, carried through the layers: a rounding
// anywhere moves the value by at most 2^-24 times the latter.
struct Traced {
  double value, magnitude;
};

Traced HostOutput(const std::vector<float>& parameters, float x, float y) {
  std::vector<Traced> in = {{x, std::fabs(x)}, {y, std::fabs(y)}}, out;
  for (const Layer& layer : kLayers) {
    out.clear();
    for (int output = 0; output < layer.outputs; ++output) {
      const float* weights = &parameters[layer.offset + output * layer.row()];
      Traced sum = {weights[layer.inputs], std::fabs(weights[layer.inputs])};
      for (int i = 0; i < layer.inputs; ++i) {
        sum.value += static_cast<double>(weights[i]) * in[i].value;
        sum.magnitude += std::fabs(weights[i]) * in[i].magnitude;
      }
      if (layer.bounded) sum.value = std::tanh(sum.value);  // its slope is at most 1
      out.push_back(sum);
    }
    in.swap(out);
  }
  return in[0];
}

struct HostVerdict {
  double loss = 0;
  int right = 0;
};

// Compares the device's outputs with the host's and judges the latter.
HostVerdict JudgeOnHost(const std::vector<float>& parameters, const std::vector<float>& outputs,
                        const std::vector<float>& inputs, const std::vector<float>& labels) {
  HostVerdict verdict;
  for (int i = 0; i < kPoints; ++i) {
    const Traced host = HostOutput(parameters, inputs[2 * i], inputs[2 * i + 1]);
    const double out = host.value, bound = host.magnitude / (1 << 20);
    if (!(std::fabs(outputs[i] - out) <= bound)) {
      example::Fail("output %d is %.7g, the host has %.7g: at most %.2g is rounding", i, outputs[i],
                    out, bound);
    }
    verdict.loss += std::fmax(out, 0.0) - out * labels[i] + std::log1p(std::exp(-std::fabs(out)));
    verdict.right += (out > 0) == (labels[i] > 0.5f);
  }
  verdict.loss /= kPoints;
  return verdict;
}

// Draws the network's answer over the square [-1.15, 1.15] and the points on top.
bool Draw(const std::string& path, Network& network, const std::vector<float>& points,
          const std::vector<float>& labels, int side) {
  const float reach = 1.15f;
  std::vector<float> inputs;
  for (int i = 0; i < side * side; ++i) {
    inputs.push_back(reach * (2.0f * (i % side) / (side - 1) - 1));
    inputs.push_back(reach * (1 - 2.0f * (i / side) / (side - 1)));
  }
  float* device_inputs = Upload(inputs);
  network.Run(device_inputs, side * side);
  const std::vector<float> outputs = Download(network.output(), side * side);
  CUDA_CHECK(cudaFree(device_inputs));

  std::vector<uint8_t> rgb;
  for (float output : outputs) {
    const float share = 1 / (1 + std::exp(-output));
    rgb.push_back(static_cast<uint8_t>(110 + 130 * share));
    rgb.push_back(static_cast<uint8_t>(170 - 20 * std::fabs(2 * share - 1)));
    rgb.push_back(static_cast<uint8_t>(240 - 130 * share));
  }
  for (int i = 0; i < kPoints; ++i) {
    const int x = static_cast<int>((points[2 * i] / reach + 1) / 2 * (side - 1) + 0.5f);
    const int y = static_cast<int>((1 - points[2 * i + 1] / reach) / 2 * (side - 1) + 0.5f);
    for (int at : {y * side + x, y * side + x + 1, (y + 1) * side + x, (y + 1) * side + x + 1}) {
      for (int channel = 0; channel < 3; ++channel)
        rgb[at * 3 + channel] = labels[i] > 0.5f ? 90 : 20;
      rgb[at * 3 + (labels[i] > 0.5f ? 0 : 2)] = 140;
    }
  }
  return example::WritePng(path, rgb, side, side);
}

int main(int argc, char** argv) {
  example::name = "train_mlp";
  const std::string picture = argc > 1 ? argv[1] : "spirals.png";
  const int side = 160;
  std::vector<float> inputs, labels;
  MakeSpirals(inputs, labels);
  float *device_inputs = Upload(inputs), *device_labels = Upload(labels);
  Network network(FirstParameters(), side * side);

  const float first_loss = network.Loss(device_inputs, device_labels, kPoints);
  std::printf("epoch %4d  loss %.4f\n", 0, first_loss);
  float loss = first_loss;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    network.Train(device_inputs, device_labels, kPoints, epoch);
    if (epoch % kReportEvery) continue;
    loss = network.Loss(device_inputs, device_labels, kPoints);
    std::printf("epoch %4d  loss %.4f\n", epoch, loss);
  }

  const HostVerdict host =
      JudgeOnHost(network.parameters(), Download(network.output(), kPoints), inputs, labels);
  const bool drawn = Draw(picture, network, inputs, labels, side);
  CUDA_CHECK(cudaFree(device_inputs));
  CUDA_CHECK(cudaFree(device_labels));
  if (!(std::fabs(loss - host.loss) <= 1e-5))
    example::Fail("the device's loss is %.7f, the host's %.7f", loss, host.loss);
  if (!(loss < first_loss / 10))
    example::Fail("the loss went from %.4f to %.4f: it should fall tenfold", first_loss, loss);
  if (host.right < kPoints * 97 / 100)
    example::Fail("%d of %d points are on the right side: should be 97%%", host.right, kPoints);
  if (!drawn)
    example::Fail("cannot write %s: the folder must exist and be writable", picture.c_str());
  return example::Pass("loss %.4f to %.4f (host: %.4f), %d of %d points right; picture %s",
                       first_loss, loss, host.loss, host.right, kPoints, picture.c_str());
}
